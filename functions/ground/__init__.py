"""Hydration, citation and trimming to the budget."""
