"""Stage write: chunks, mentions and relations enter or leave both stores."""
