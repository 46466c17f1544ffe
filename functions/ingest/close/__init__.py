"""Ends a run."""
