"""Answer synthesis."""
