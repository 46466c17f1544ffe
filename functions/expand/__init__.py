"""Widen and re-rank by the knowledge graph."""
