"""Documents over HTTP: list, read, load, remove."""
