"""Numba kernels on a navmesh, and the rows that they read."""
