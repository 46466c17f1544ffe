"""Document converters, one per format."""
