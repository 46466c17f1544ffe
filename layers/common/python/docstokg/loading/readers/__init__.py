"""Readers of formats without vendor packages: each returns raw chunks or entities."""
