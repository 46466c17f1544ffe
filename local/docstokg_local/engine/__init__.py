"""The state machine on a laptop."""
