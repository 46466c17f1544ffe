"""Knowledge graph expansion and re-ranking."""
