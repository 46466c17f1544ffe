"""The knowledge graph: linking names, slices, ranking, paths."""
