"""What brings the encoder's states into a layer of the decoder; one file a kind."""
