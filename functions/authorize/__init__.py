"""Lambda authorizer of API Gateway."""
