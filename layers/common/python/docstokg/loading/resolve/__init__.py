"""Stage resolve: which entity a name means, and which entities went."""
