"""Load files as chunks, entities and relations into both stores, repeatably."""
