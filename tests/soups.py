"""Distances to triangles, by trimesh."""

import numpy as np
import trimesh


def trimesh_distances(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The distance of each point [M, 3] to the nearest of the triangles [T, 3, 3]."""
    corners = np.asarray(corners, np.float64)

    def distance(point: np.ndarray) -> float:
        closest = trimesh.triangles.closest_point(corners, np.repeat([point], len(corners), axis=0))
        return float(np.linalg.norm(closest - point, axis=1).min())

    return np.array([distance(point) for point in np.asarray(points, np.float64)])
