"""Other retrieval libraries with our servers, encoder and sets, each in its own environment."""
