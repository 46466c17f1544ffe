"""Tell an answer while it is made."""
