"""Tell how the service and its dependencies are doing."""
