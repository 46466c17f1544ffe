"""The AWS infrastructure; the only package that imports CDK."""
