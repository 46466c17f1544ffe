"""A load from a bucket."""
