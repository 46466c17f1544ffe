"""Ask the channels, fuse, select."""
