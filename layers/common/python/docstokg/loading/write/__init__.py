"""Stage write: add or remove chunks, mentions and relations in both stores."""
