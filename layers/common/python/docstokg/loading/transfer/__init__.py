"""Namespace export and import."""
