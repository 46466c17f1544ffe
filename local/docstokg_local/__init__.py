"""The laptop: the same handlers and the same state machine, without a network or an account."""
