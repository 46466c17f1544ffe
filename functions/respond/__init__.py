"""Response: check, format, record."""
