"""The loader's stages as functions: read, encode, names, resolve, write, close."""
