"""SQLite stores."""
