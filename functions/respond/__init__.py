"""Check, format and record the response."""
