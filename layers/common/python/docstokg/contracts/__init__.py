"""Frozen messages: what comes in, what travels between steps, what the stores hold, what goes out."""
