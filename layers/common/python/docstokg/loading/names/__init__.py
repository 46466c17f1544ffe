"""Stage names: names in texts, from rules, a recogniser or a language model."""
