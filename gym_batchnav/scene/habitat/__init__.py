"""Habitat's scene datasets."""
