"""The loader's stages as functions: read, encode, names, book, write, close."""
