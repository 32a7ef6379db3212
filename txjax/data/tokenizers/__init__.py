"""Members of txjax.config.data.Tokenizer, one file each, with their codecs."""
