"""Parse, check and plan a request."""
