"""What works on each token alone; one file a kind."""
