"""Amazon's services behind the ports."""
