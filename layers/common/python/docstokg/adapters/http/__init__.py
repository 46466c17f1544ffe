"""HTTP models."""
