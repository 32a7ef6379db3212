"""How what a batch holds becomes vectors; one file a kind."""
