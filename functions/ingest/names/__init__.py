"""Asks the recogniser about the chunks of a shard."""
