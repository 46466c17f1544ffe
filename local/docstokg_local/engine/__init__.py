"""The local state machine."""
