"""The only package that imports CDK; it refers to the other folders by name."""
