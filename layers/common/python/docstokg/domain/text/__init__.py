"""Text analysis."""
