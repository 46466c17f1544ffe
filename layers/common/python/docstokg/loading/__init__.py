"""Repeatable loading into both stores."""
