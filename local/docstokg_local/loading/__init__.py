"""Processes of a local load."""
