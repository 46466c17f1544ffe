"""Frozen models of requests, responses, step messages and stored records."""
