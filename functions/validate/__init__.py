"""Validation and planning of a request."""
