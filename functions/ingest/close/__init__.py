"""End of a run."""
