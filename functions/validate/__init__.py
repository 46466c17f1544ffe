"""Request validation and planning."""
