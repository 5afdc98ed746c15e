"""The pixels for which a scene has no single answer, found by rays in float64 that belong to neither renderer.

A pixel shows the surface that the ray through its centre hits first. No renderer can tell which one that is where

- two surfaces lie in one place: which of them is nearer is decided by the rounding of float32;
- an edge passes by the centre within 1/256 of a pixel: the hardware moves corners to a grid of that size.

Rays through points within 1/256 of a pixel around the centre find all surfaces that may be shown. A difference between
two pictures is ambiguous if these are several, and both pictures show one of them: its object at its depth. What lies
behind is no excuse, nor are surfaces with transparent parts.
"""

from __future__ import annotations

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.scene.scene import MASK, Scene

REACH = 1 / 256  # pixels, the grid of OpenGL devices with 8 bits for parts of a pixel
TIE = 1e-5  # relative difference of depths that count as equal, some tens of float32 roundings
DEPTH = 1e-3  # metres or relative, within which a picture shows the depth of a surface
MAX_PIXELS = 1000  # that are judged in a file; differences beyond these are not ambiguous
_TURNS = np.arange(8) * (np.pi / 4)
_CIRCLE = np.stack([np.cos(_TURNS), np.sin(_TURNS)], axis=1)
_POINTS = REACH * np.concatenate([np.zeros((1, 2)), 0.5 * _CIRCLE, _CIRCLE])  # [S, 2] pixels from the centre


def find_ambiguous(
    scene: Scene, views: np.ndarray, camera: Camera, pictures: list[dict[str, np.ndarray]], differ: np.ndarray
) -> np.ndarray:
    """Return which of the differing pixels [N, H, W] are ambiguous.

    Args:
        scene: What the pictures show, with surfaces on both sides.
        views: [N, 4, 4], world-to-camera.
        camera: A pinhole whose depth is not clipped at its near end.
        pictures: Of each renderer, with the depth and semantic ids.
        differ: [N, H, W] bool, the pixels to judge.
    """
    found = np.zeros_like(differ)
    pixels = np.argwhere(differ)[:MAX_PIXELS]
    unit = camera.max_depth if camera.normalize_depth else 1.0
    for view in np.unique(pixels[:, 0]).tolist():
        rays = _Rays(scene, views[view], camera)
        for row, column in pixels[pixels[:, 0] == view, 1:].tolist():
            shown = [
                (float(one["depth"][view, row, column, 0]) * unit, int(one["semantic"][view, row, column, 0]))
                for one in pictures
            ]
            found[view, row, column] = rays.are_ambiguous(row, column, shown)
    return found


class _Rays:
    """The rays of one view."""

    def __init__(self, scene: Scene, view: np.ndarray, camera: Camera) -> None:
        self._scene = scene
        self._camera = camera
        view = view.astype(np.float64)
        points = scene.vertices.astype(np.float64) @ view[:3, :3].T + view[:3, 3]  # in the camera's frame
        self._corners = points[scene.triangles]  # [T, 3, 3]
        self._pixel = 2 * camera.tan_half_width / camera.width  # on the plane at unit distance
        with np.errstate(divide="ignore", invalid="ignore"):
            flat = points[:, :2] / -points[:, 2:]
        flat = np.where(points[:, 2:] < -camera.near, flat, np.inf)[scene.triangles]  # [T, 3, 2]
        crosses = np.isinf(flat).any(axis=(1, 2))[:, None]  # the near plane, so that its outline is not known
        self._low = np.where(crosses, -np.inf, flat.min(axis=1)) - REACH * self._pixel
        self._high = np.where(crosses, np.inf, flat.max(axis=1)) + REACH * self._pixel

    def are_ambiguous(self, row: int, column: int, shown: list[tuple[float, int]]) -> bool:
        """Return whether several surfaces may be shown by a pixel, and each of ``shown`` is one of them.

        Args:
            row: Of the pixel.
            column: Of the pixel.
            shown: Depths in metres and semantic ids that pictures show.
        """
        camera = self._camera
        center = np.array([column + 0.5 - camera.width / 2, camera.height / 2 - row - 0.5]) * self._pixel
        near = np.flatnonzero(((self._low <= center) & (center <= self._high)).all(axis=1))
        depth = self._depths(near, center + _POINTS * self._pixel)
        first = depth.min(axis=0, initial=np.inf)
        rays, rows = np.nonzero((depth <= first * (1 + TIE)).T & np.isfinite(first)[:, None])
        triangles = near[rows]
        scene = self._scene
        if (scene.materials.alpha_mode[scene.triangle_material[triangles]] == MASK).any():
            return False
        misses = bool(np.isinf(first).any())
        if len(np.unique(triangles)) + misses < 2:
            return False
        answers = list(zip(depth[rows, rays].tolist(), scene.triangle_object[triangles].tolist(), strict=True))
        answers += [(np.inf, 0)] * misses
        return all(any(self._is_same(one, answer) for answer in answers) for one in shown)

    def _is_same(self, shown: tuple[float, int], answer: tuple[float, int]) -> bool:
        truth = min(max(answer[0], self._camera.min_depth), self._camera.max_depth)
        return shown[1] == answer[1] and abs(shown[0] - truth) <= DEPTH * max(1.0, truth)

    def _depths(self, triangles: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the depths [K, S] at which rays through places [S, 2] at unit distance hit triangles [K], or inf."""
        corners = self._corners[triangles]
        rays = np.concatenate([places, np.full((len(places), 1), -1.0)], axis=1)
        first = corners[:, 1] - corners[:, 0]
        second = corners[:, 2] - corners[:, 0]
        normal = np.cross(first, second)
        away = -(normal @ rays.T)  # [K, S]
        turned = np.cross(-corners[:, 0][:, None], rays)  # [K, S, 3]
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.einsum("ksx,kx->ks", turned, second) / away
            v = -np.einsum("ksx,kx->ks", turned, first) / away
            depth = -np.einsum("kx,kx->k", corners[:, 0], normal)[:, None] / away
            inside = (np.minimum(u, v) >= -1e-12) & (u + v <= 1 + 1e-12) & (depth > self._camera.near)
        return np.where(inside, depth, np.inf)
