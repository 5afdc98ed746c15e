"""The Embree renderer: ray tracing by Embree, shading by Numba kernels."""
