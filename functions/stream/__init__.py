"""Streaming of answers."""
