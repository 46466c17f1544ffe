"""The AWS infrastructure."""
