"""Rays through Embree, shaded by Numba kernels."""
