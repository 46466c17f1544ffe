"""The local server and command line."""
