"""Knowledge graph in Neo4j."""
