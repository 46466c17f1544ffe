"""Write retrieval traces in the background, and remove them when their time is over."""
