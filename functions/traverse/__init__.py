"""Walk the knowledge graph from given nodes."""
