"""Let a model write."""
