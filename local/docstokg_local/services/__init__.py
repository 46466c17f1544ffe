"""A real OpenSearch and Neo4j on loopback."""
