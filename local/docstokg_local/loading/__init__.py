"""Processes of a load on this machine."""
