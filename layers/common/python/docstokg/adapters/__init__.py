"""Adapters by vendor."""
