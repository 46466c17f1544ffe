"""One package per Lambda function; each handler is thin and runs the use case beside it."""
