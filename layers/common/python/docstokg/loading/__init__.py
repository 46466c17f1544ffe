"""Loading of files into both stores, repeatably."""
