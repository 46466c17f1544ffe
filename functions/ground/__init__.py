"""Hydration, citation and trimming."""
