"""One load over a bucket, its stages in any number of processes."""
