"""Document converters, one per format, run in a child process."""
