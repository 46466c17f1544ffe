"""What a text is made of: words, sentences, names, numbers."""
