"""AgentCameras: renders the views of agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.render.api import SENSOR_FORMATS, Renderer, Target, make_renderer
from gym_batchnav.state import AgentState

PICTURE_VIEWS = 64  # rendered at a time by ``pictures``, which limits its memory


class AgentCameras:
    """One camera per agent. The renderer and its targets are created on first use.

    Args:
        library: The scenes.
        renderer: Name of the renderer, see ``make_renderer``, or an existing renderer of the same library to share. A
            shared renderer is not closed here.
        camera: The agents' camera.
        sensors: The camera's sensors by name; empty for blind agents, which need no renderer.
        num_views: The number of agents, N.
        navmeshes: The navmeshes of the library's slots, which know the visible floor under an agent.
        reuse_buffers: Return arrays from a ring, which are overwritten later, instead of fresh arrays.
        buffers: Number of further batches of images for which a reused array remains valid.
        device: ``"cpu"``, or ``"cuda"`` for torch tensors that stay on an NVIDIA device, always in a ring.
    """

    def __init__(
        self,
        library: SceneLibrary,
        renderer: str | Renderer,
        camera: Camera,
        sensors: tuple[str, ...],
        num_views: int,
        navmeshes: NavMeshAgents,
        *,
        reuse_buffers: bool = False,
        buffers: int = 2,
        device: str = "cpu",
    ) -> None:
        self.device = device
        self.camera = camera
        self.sensors = sensors
        self.num_views = num_views
        self._library = library
        self._navmeshes = navmeshes
        self._reuse_buffers = reuse_buffers
        self._buffers = buffers
        self._renderer_name = renderer if isinstance(renderer, str) else renderer.name
        self._renderer: Renderer | None = None if isinstance(renderer, str) else renderer
        self._owns_renderer = isinstance(renderer, str)
        self._target: Target | None = None
        self._partial_target: Target | None = None
        self._picture_targets: dict[Camera, Target] = {}
        self._drawing = False
        self._begun: tuple[int, np.ndarray, np.ndarray, np.ndarray] | None = None  # generation, slots, poses
        self._kept: dict[str, np.ndarray] | None = None  # the images of these poses, if no caller has them

    @property
    def renderer(self) -> Renderer:
        """The renderer of the library's scenes."""
        if self._renderer is None:
            self._renderer = make_renderer(self._renderer_name, self._library)
        return self._renderer

    def views(self, agents: AgentState, indices: np.ndarray | None = None, camera: Camera | None = None) -> np.ndarray:
        """Return the world-to-camera matrices of agents: level, ``eye_height`` above the visible floor under them.

        Every image that agents see is rendered with these matrices.

        Args:
            agents: The agents.
            indices: [M] int, the agents to look through; all by default.
            camera: Another camera than theirs, for its ``eye_height``.

        Returns:
            [M, 4, 4] float32.
        """
        slot = agents.slot
        polygon = agents.polygon
        position = agents.position
        heading = agents.heading
        if indices is not None:
            slot = slot[indices]
            polygon = polygon[indices]
            position = position[indices]
            heading = heading[indices]
        floor = self._navmeshes.visible_floor(slot, polygon, position)
        return view_matrices(floor, heading, (camera or self.camera).eye_height)

    def begin(self, agents: AgentState) -> None:
        """Start rendering the views of all agents."""
        if not self.sensors:
            return
        if self._drawing and self._target is not None:  # an error came between begin and finish
            self._target.close()
            self._target = None
        if self._target is None:
            # One set more than promised: the newest is rendered while the caller still holds the others.
            self._target = self.renderer.target(
                self.camera, self.sensors, num_views=self.num_views, device=self.device, buffers=self._buffers + 1
            )
        self._drawing = True
        self._kept = None
        self._begun = (self._library.generation, agents.slot.copy(), agents.position.copy(), agents.heading.copy())
        self._target.begin(agents.slot, self.views(agents))

    def finish(self) -> dict[str, Any]:
        """Return the images that ``begin`` started, one array or tensor [N, ...] per sensor."""
        if self._target is None:
            return {}
        images = self._target.finish()
        self._drawing = False
        if self._reuse_buffers or self.device == "cuda":
            return images
        if self.renderer.name == "embree":  # with OpenGL the last bit depends on the place in the framebuffer
            self._kept = images
        return {name: image.copy() for name, image in images.items()}

    def refresh(self, agents: AgentState) -> dict[str, Any]:
        """Call ``begin`` and ``finish``, but copy the images of agents that have not moved since the last batch."""
        moved = self._moved(agents)
        if self._kept is None or moved.all():
            self.begin(agents)
            return self.finish()
        fresh = {name: image.copy() for name, image in self._kept.items()}
        rows = np.nonzero(moved)[0]
        for name, image in self._render_rows(agents, rows).items() if len(rows) else ():
            fresh[name][rows] = image
        return fresh

    def images_of(self, agents: AgentState, indices: np.ndarray) -> dict[str, Any]:
        """Return the views of agents ``indices`` [M] in rows of fresh arrays or tensors [N, ...], zero elsewhere."""
        if not self.sensors:
            return {}
        images = self._render_rows(agents, indices)
        return {name: scatter(image, indices, self.num_views) for name, image in images.items()}

    def _moved(self, agents: AgentState) -> np.ndarray:
        """Return which agents [N] bool have moved since the last ``begin``; all if a slot has changed."""
        if self._begun is None or self._begun[0] != self._library.generation:
            return np.ones(self.num_views, bool)
        _, scene, position, heading = self._begun
        return (agents.slot != scene) | (agents.position != position).any(axis=1) | (agents.heading != heading)

    def _render_rows(self, agents: AgentState, indices: np.ndarray) -> dict[str, Any]:
        """Return the views of agents ``indices`` [M], arrays [M, ...] that are valid until the next call."""
        if self._partial_target is None:
            self._partial_target = self.renderer.target(
                self.camera, self.sensors, num_views=self.num_views, device=self.device, buffers=1
            )
        try:
            return self._partial_target.render(agents.slot[indices], self.views(agents, indices))
        except BaseException:  # otherwise a batch that has begun would never finish
            self._partial_target.close()
            self._partial_target = None
            raise

    def to_device(self, array: np.ndarray) -> Any:
        """Return an array as it is, or as a torch tensor on the device of the images."""
        if self.device == "cpu":
            return array
        from gym_batchnav.render.opengl.cuda import to_cuda

        return to_cuda(array)

    def pictures(self, agents: AgentState, indices: np.ndarray, camera: Camera) -> np.ndarray:
        """Return the views of agents ``indices`` [M] through another camera, [M, H, W, 3] uint8."""
        return self.pictures_at(agents.slot[indices], self.views(agents, indices, camera), camera)

    def pictures_at(self, slots: np.ndarray, views: np.ndarray, camera: Camera) -> np.ndarray:
        """Return RGB pictures [M, H, W, 3] uint8 of the scenes in slots [M] from views [M, 4, 4], world-to-camera."""
        if camera not in self._picture_targets:
            self._picture_targets[camera] = self.renderer.target(camera, ("rgb",), num_views=PICTURE_VIEWS, buffers=1)
        target = self._picture_targets[camera]
        pictures = np.empty((len(slots), camera.height, camera.width, 3), np.uint8)
        for first in range(0, len(slots), PICTURE_VIEWS):
            chunk = slice(first, first + PICTURE_VIEWS)
            pictures[chunk] = target.render(slots[chunk], views[chunk])["rgb"]
        return pictures

    def close(self) -> None:
        """Release the targets, and the renderer unless it is shared; idempotent."""
        resources: list[Any] = [self._target, self._partial_target, *self._picture_targets.values()]
        if self._owns_renderer:
            resources.append(self._renderer)
        for resource in resources:
            if resource is not None:
                resource.close()
        self._target = None
        self._partial_target = None
        self._picture_targets = {}
        self._renderer = None
        self._kept = None


def picture_spaces(camera: Camera, sensors: tuple[str, ...]) -> dict[str, Box]:
    """Return the space of each picture of one agent, by sensor."""
    upper_bounds = {
        "depth": 1.0 if camera.normalize_depth else camera.max_depth,
        "rgb": 255,
        "semantic": np.iinfo(np.int32).max,
    }
    spaces = {}
    for sensor in sensors:
        dtype, channels = SENSOR_FORMATS[sensor]
        spaces[sensor] = Box(0, upper_bounds[sensor], (camera.height, camera.width, channels), dtype.type)
    return spaces


def scatter(rows: Any, indices: np.ndarray, count: int) -> Any:
    """Return an array or tensor [count, ...] of zeros with ``rows`` [M, ...] at ``indices`` [M]."""
    shape = (count, *rows.shape[1:])
    dense = np.zeros(shape, rows.dtype) if isinstance(rows, np.ndarray) else rows.new_zeros(shape)
    dense[indices] = rows
    return dense
