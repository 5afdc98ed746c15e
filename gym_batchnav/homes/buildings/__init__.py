"""Offices, shops and halls."""
