"""Other retrieval libraries on our servers, encoder and sets, each in an environment of its own."""
