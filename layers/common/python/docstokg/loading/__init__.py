"""Files become chunks, entities and relations of both stores, repeatably, line by line checked."""
