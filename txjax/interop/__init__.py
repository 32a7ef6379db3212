"""Weights in and out: other people's names and layouts, as tables."""
