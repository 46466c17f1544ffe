"""Health of the service."""
