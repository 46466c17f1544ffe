"""One file a format that needs no vendor: each turns a file into given chunks and entities."""
