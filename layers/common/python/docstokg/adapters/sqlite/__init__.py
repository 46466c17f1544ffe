"""Index, graph, caches and jobs in SQLite files."""
