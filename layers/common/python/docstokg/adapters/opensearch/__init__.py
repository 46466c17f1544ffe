"""OpenSearch index."""
