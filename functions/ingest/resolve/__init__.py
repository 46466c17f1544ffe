"""Decides who is named in a run."""
