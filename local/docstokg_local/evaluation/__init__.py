"""Evaluation against gold data."""
