"""Adapters for Amazon's services."""
