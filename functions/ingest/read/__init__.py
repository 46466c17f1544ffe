"""Reading of objects into rows."""
