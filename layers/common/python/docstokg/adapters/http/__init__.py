"""Embedders and rerankers reached over HTTP."""
