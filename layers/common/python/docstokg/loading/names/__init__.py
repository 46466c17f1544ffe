"""Stage names: what a text names, by rules, a recogniser or a language model."""
