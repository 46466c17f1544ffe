"""Retrieval: channel queries, fusion, selection."""
