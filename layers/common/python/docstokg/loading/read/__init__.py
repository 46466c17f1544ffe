"""Stage read: files become chunks, entities and relations."""
