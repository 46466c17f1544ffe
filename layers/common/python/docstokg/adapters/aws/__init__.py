"""AWS adapters."""
