"""Pure rules: no clock, no network, no vendor, so that each can be read and proved alone."""
