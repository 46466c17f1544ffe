"""Encoding of a shard's chunks."""
