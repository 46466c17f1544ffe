"""Check of drafts against their sources and the graph."""
