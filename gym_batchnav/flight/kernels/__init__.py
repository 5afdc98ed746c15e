"""Kernels of flight."""
