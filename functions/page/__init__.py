"""Static files: the page and the API reference."""
