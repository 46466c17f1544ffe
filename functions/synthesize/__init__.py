"""Answer synthesis with a language model."""
