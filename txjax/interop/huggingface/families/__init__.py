"""Families of models, one file each, named as config.json's model_type; a file defines FAMILY."""
