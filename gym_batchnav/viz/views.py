"""Views of scenes for people: with edge lines and side lighting, or exactly as agents see them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import Renderer
from gym_batchnav.render.target import Target
from gym_batchnav.viz.sheets import sensor_picture

if TYPE_CHECKING:
    from gym_batchnav.env.batch import BatchNavEnv

SKY = (201, 219, 235)
_FAR = 1e6  # metres
_LIGHT = np.array([-0.35, 0.55, 0.76])  # unit vector towards the light: left, up and behind the viewer
_SIDE_LIGHT = 0.3  # loss of brightness where that light does not fall
_EDGE = (0.25, 1.0)  # changes of slope from which an edge line is visible, and fully drawn
_LINE = 0.55  # loss of brightness at an edge line


def draw_for_people(
    renderer: Renderer, camera: Camera, slots: np.ndarray, views: np.ndarray, sky: tuple[int, int, int] = SKY
) -> np.ndarray:
    """Draw views [N, 4, 4], world-to-camera, of scenes in slots [N] for people, as pictures [N, H, W, 3] uint8.

    They have edge lines and light from the upper left, so that shapes are distinguishable even in a scene of a single
    colour. Only the camera's size, field of view and near plane are used. The sky is seen where a ray hits nothing.
    """
    fine = 2 if max(camera.width, camera.height) <= 2048 else 1  # samples per pixel along each axis
    camera = replace(
        camera, width=fine * camera.width, height=fine * camera.height, max_depth=_FAR, normalize_depth=False,
        depth_miss="zero",
    )  # fmt: skip
    pictures = []
    with closing(renderer.target(camera, ("rgb", "depth"), num_views=1, buffers=1)) as target:
        for slot, view in zip(slots, views, strict=True):  # one at a time, to limit memory
            images = target.render(np.array([slot]), view[None])
            depth = images["depth"][0, ..., 0]
            shade = _shade(depth, camera)[..., None]
            picture = np.where(depth[..., None] > 0, images["rgb"][0] * shade, sky)
            height, width = depth.shape
            picture = picture.reshape(height // fine, fine, width // fine, fine, 3).mean(axis=(1, 3))
            pictures.append(np.round(picture).astype(np.uint8))
    return np.stack(pictures)


class AgentViews:
    """The views of a batch's agents, drawn for people or for files.

    They are rendered to a separate target, which is made when it is first used; the environment's own buffers are
    untouched. At most ``num_views`` agents are drawn at once, through their first camera unless another one is given.
    Images have its aspect ratio, and ``size`` pixels along the longer side; where a pinhole camera has one row, people
    see more: a third as many rows as columns.

    Args:
        **changes: Fields of the camera that differ; by default depth is normalized, and 1 where nothing is hit.
    """

    def __init__(
        self,
        env: BatchNavEnv,
        sensors: Sequence[str],
        size: int,
        num_views: int,
        camera: Camera | None = None,
        **changes: Any,
    ) -> None:
        camera = camera or env.cameras.rig.first
        scale = size / max(camera.width, camera.height)
        width, height = (max(1, round(scale * side)) for side in (camera.width, camera.height))
        if camera.height == 1 and camera.lens is None:
            height = max(1, size // 3)
        changes = {"normalize_depth": True, "depth_miss": "far", **changes}
        self.camera = replace(camera, width=width, height=height, **changes)
        self._env = env
        self._sensors = tuple(sensors)
        self._num_views = num_views
        self._target: Target | None = None

    def images(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return images [M, H, W, C] of the current views of agents ``indices`` [M], by sensor."""
        if not self._sensors:
            return {}
        if self._target is None:
            renderer = self._env.renderer
            self._target = renderer.target(self.camera, self._sensors, num_views=self._num_views, buffers=1)
        agents = self._env.agents
        cameras = self._env.cameras
        views = cameras.views(agents, indices, self.camera)
        return self._target.render(agents.slot[indices], views, cameras.bodies(agents, indices))

    def of(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return pictures [M, H, W, 3] uint8 of the current views of agents, by sensor; depth is grey."""
        return {sensor: sensor_picture(sensor, image) for sensor, image in self.images(indices).items()}

    def close(self) -> None:
        """Release the target; idempotent."""
        if self._target is not None:
            self._target.close()
        self._target = None


def _shade(depth: np.ndarray, camera: Camera) -> np.ndarray:
    """Return the brightness of each pixel, [H, W] in (0, 1], from metric depth [H, W] with 0 where a ray hits nothing.

    On a plane, the inverse of depth is linear in the image coordinates. Its slope gives the plane's normal, and its
    second difference is zero except at edges.
    """
    height, width = depth.shape
    pixel = 2 * camera.tan_half_width / width  # size of a pixel at unit distance
    inverse = np.divide(1, depth, where=depth > 0, out=np.zeros(depth.shape))
    slopes = []
    changes = np.zeros(depth.shape)
    for axis in (1, 0):
        step = np.diff(inverse, axis=axis)
        padding = [(0, 0), (0, 0)]
        padding[axis] = (1, 1)
        step = np.pad(step, padding, mode="edge")
        before, after = (np.take(step, range(start, start + depth.shape[axis]), axis) for start in (0, 1))
        changes = np.maximum(changes, np.abs(after - before))
        slopes.append(
            np.where(np.abs(before) < np.abs(after), before, after) / pixel
        )  # the smaller one does not cross an edge
    x = ((np.arange(width) + 0.5) / width * 2 - 1) * camera.tan_half_width
    y = ((np.arange(height) + 0.5) / height * 2 - 1)[:, None] * camera.tan_half_height
    normal = np.stack([-slopes[0], slopes[1], inverse - x * slopes[0] - y * slopes[1]])
    lit = np.tensordot(_LIGHT, normal, 1) / np.maximum(np.linalg.norm(normal, axis=0), 1e-12)
    edge = np.divide(changes, inverse * pixel, where=inverse > 0, out=np.zeros(depth.shape))
    line = np.clip((edge - _EDGE[0]) / (_EDGE[1] - _EDGE[0]), 0, 1)
    light = np.clip(lit / _LIGHT[2], 0, 1)  # surfaces that face the viewer are fully lit
    return (1 - _SIDE_LIGHT * (1 - light)) * (1 - _LINE * line)
