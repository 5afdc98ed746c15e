"""Semantic annotations of scans: the objects that they list, and the triangles that belong to each."""
