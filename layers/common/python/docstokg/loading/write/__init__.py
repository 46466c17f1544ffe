"""Stage write."""
