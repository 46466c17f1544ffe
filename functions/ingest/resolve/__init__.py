"""Entity resolution of a run."""
