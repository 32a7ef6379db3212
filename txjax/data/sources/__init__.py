"""Members of txjax.config.data.Source, one file each."""
