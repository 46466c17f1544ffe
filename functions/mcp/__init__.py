"""Tools of the Model Context Protocol."""
