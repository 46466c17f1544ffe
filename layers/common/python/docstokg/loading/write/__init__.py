"""Stage write: changes in both stores."""
