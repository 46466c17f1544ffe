"""Expansion and re-ranking with the knowledge graph."""
