"""Stage read: files become checked chunks, entities and relations."""
