"""Hydrate, cite, cut to the budget."""
