"""Stage resolve: entities of names."""
