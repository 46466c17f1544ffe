"""Retrieval traces: recording and removal."""
