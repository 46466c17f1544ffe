"""Frozen models of requests, responses, messages and records."""
