"""Answers: quotation, citation, checks and confidence."""
