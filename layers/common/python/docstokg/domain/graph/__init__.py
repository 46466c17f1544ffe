"""Knowledge graph: entity linking, slices, ranking, paths."""
