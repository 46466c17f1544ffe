"""Takes the rows of some objects."""
