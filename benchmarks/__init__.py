"""Repeatable measurements of quality and speed, one command each."""
