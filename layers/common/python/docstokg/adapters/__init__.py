"""Adapters, one file per vendor."""
