"""Training of the product's learned parts; not part of the product."""
