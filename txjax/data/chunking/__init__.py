"""Members of txjax.config.data.Chunking, one file each: documents of tokens to sequences of one length."""
