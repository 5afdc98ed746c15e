"""Numba kernels on navmeshes, and the arrays that they read."""
