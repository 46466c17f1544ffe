"""Documents to text, one converter a format, in a process of its own."""
