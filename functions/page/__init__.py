"""The page and the interactive API reference: static files, our own code, no foreign host."""
