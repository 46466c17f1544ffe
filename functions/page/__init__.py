"""Static files: the page and the interactive API reference, without third-party hosts."""
