"""The local HTTP server."""
