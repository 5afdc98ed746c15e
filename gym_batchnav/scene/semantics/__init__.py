"""Semantic annotations beside scans: the objects that they list, and the triangles that belong to each."""
