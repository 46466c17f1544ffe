"""Readers without vendor packages."""
