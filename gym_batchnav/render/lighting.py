"""The light of both renderers, which depends only on the camera and the sky, so that scenes need no lamps."""

from __future__ import annotations

import numpy as np

from gym_batchnav.geometry import Camera

_AMBIENT = 0.65
_DIFFUSE = 0.35


def brightness(camera: Camera) -> tuple[float, float]:
    """Return ambient and diffuse: a surface shows its albedo times ambient + diffuse x max(0, n . l)."""
    return (_AMBIENT, _DIFFUSE) if camera.lit else (1.0, 0.0)


def light_directions(views: np.ndarray) -> np.ndarray:
    """Return the direction of the head-and-sky light of every view: between the camera's back axis and the world's up.

    Args:
        views: [N, 4, 4], world-to-camera.

    Returns:
        [N, 3] float32 unit vectors in world space towards the light; zero for a camera that looks straight up.
    """
    light = views[:, 2, :3] + np.array([0, 1, 0], views.dtype)
    length = np.linalg.norm(light, axis=1, keepdims=True)
    return np.where(length > 1e-6, light / np.maximum(length, 1e-6), 0).astype(np.float32)
