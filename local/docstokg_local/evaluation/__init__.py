"""Evaluation of retrieval and answers against gold data."""
