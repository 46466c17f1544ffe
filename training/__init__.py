"""Training of the product's learned parts."""
