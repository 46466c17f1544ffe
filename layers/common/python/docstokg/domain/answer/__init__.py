"""Answers and their checks."""
