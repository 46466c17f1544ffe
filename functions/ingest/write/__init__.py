"""Writing of a shard's documents."""
