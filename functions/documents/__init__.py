"""What is loaded, read in its context, and changed by jobs: documents over HTTP."""
