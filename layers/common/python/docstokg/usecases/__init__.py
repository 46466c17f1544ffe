"""Use cases shared by several functions."""
