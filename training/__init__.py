"""Fits what the product has learned from data; nothing here is part of the product."""
