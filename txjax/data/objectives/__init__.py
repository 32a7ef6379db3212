"""The kinds of txjax.config.data.Objective, one file each."""
