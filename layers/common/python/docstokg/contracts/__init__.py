"""Frozen messages: what comes in, what travels, what the stores hold, what goes out."""
