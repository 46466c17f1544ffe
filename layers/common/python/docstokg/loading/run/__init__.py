"""A load from a bucket, with stages in several processes."""
