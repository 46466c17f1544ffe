"""Domain rules: pure functions."""
