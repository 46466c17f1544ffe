"""Neo4j graph."""
