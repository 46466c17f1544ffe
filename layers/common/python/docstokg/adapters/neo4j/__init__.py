"""Knowledge graph in Neo4j; contains all Cypher texts."""
