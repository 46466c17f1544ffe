"""Adapters, one file per vendor; the only vendor imports in the repository."""
