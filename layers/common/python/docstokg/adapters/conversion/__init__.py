"""Document converters."""
