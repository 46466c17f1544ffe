"""Model Context Protocol tools."""
