"""The local server and command line: the same handlers and state machine, without an account."""
