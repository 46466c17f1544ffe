"""Text analysis: words, sentences, names, numbers."""
