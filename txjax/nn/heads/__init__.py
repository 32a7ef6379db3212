"""What turns hidden states into logits; one file a kind."""
