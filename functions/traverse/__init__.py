"""Graph walks from given nodes."""
