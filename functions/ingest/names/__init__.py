"""Names in a shard's chunks."""
