"""The search index in OpenSearch."""
