"""Recognition of names in a shard's chunks."""
