"""Stage names: names in texts."""
