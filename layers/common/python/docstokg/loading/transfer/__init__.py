"""A namespace as a file, and back."""
