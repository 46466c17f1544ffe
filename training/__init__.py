"""Training of learned parts."""
