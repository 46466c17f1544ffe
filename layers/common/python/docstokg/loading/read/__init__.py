"""Stage read: files to records."""
