"""Checks of drafts."""
