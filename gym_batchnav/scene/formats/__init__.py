"""Readers of scene files."""
