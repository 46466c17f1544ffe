"""The product as tools of the Model Context Protocol."""
