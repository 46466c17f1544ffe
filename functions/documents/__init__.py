"""Documents over HTTP."""
