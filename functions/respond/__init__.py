"""Check, shape and record the response."""
