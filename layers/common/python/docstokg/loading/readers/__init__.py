"""One file a format that needs no vendor: each turns a file into raw chunks and entities."""
