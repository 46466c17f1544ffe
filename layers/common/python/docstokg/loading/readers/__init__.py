"""Readers of formats that need no vendor packages."""
