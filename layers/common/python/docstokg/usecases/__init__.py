"""What two functions share and no single one owns."""
