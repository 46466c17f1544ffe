"""Stage resolve: entities of names, and entities that are no longer named."""
