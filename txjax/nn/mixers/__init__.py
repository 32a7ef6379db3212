"""What moves information between tokens; one file a mixer: its knobs, its kind, its module."""
