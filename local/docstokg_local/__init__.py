"""Local server and command line."""
