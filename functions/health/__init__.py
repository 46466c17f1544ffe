"""Health of the service and its dependencies."""
