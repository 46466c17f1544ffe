"""One package per Lambda function: a thin handler and its use case."""
