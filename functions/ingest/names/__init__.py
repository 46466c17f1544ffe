"""Name recognition in a shard's chunks."""
