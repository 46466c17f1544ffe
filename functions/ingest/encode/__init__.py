"""Asks the encoders about the chunks of a shard."""
