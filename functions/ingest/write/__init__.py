"""Writes a shard's documents."""
