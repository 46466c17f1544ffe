"""Recording of retrieval traces, and removal of expired ones."""
