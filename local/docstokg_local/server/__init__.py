"""The HTTP API on a laptop."""
