"""The knowledge graph in Neo4j; every Cypher text is here."""
