"""Measurements that stay: quality and speed, each by one command."""
