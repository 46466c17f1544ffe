"""Stores in SQLite."""
