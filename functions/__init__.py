"""One package per Lambda function."""
