"""AgentCameras: from the poses of agents to their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS, Renderer, Target, make_renderer
from gym_batchnav.state import AgentState

PICTURE_VIEWS = 64  # pictures are drawn so many at a time, which bounds their memory


class AgentCameras:
    """One camera an agent; the renderer and its targets are made when they are first needed.

    Args:
        library: The scenes.
        renderer: Name of the renderer, see ``make_renderer``, or one of the same library to share; who made it closes
            it.
        camera: The agents' camera.
        sensors: What it records; empty for blind agents, who need no renderer.
        num_views: The number of agents, N.
        reuse_buffers: Hand out a ring of arrays that are written again later instead of fresh arrays.
        buffers: For how many further pictures a reused array stays valid.
        device: ``"cpu"``, or ``"cuda"`` for torch tensors that stay on an NVIDIA device, always in a ring.
    """

    def __init__(
        self,
        library: SceneLibrary,
        renderer: str | Renderer,
        camera: Camera,
        sensors: tuple[str, ...],
        num_views: int,
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
        self._reuse_buffers = reuse_buffers
        self._buffers = buffers
        self._renderer_name = renderer if isinstance(renderer, str) else renderer.name
        self._renderer: Renderer | None = None if isinstance(renderer, str) else renderer
        self._owns_renderer = isinstance(renderer, str)
        self._target: Target | None = None
        self._partial_target: Target | None = None
        self._picture_targets: dict[Camera, Target] = {}
        self._drawing = False
        self._begun: tuple[int, np.ndarray, np.ndarray, np.ndarray] | None = None  # scenes and poses, see _moved
        self._kept: dict[str, np.ndarray] | None = None  # the target's pictures of them, if no caller holds these

    @property
    def renderer(self) -> Renderer:
        """The renderer of the library's scenes."""
        if self._renderer is None:
            self._renderer = make_renderer(self._renderer_name, self._library)
        return self._renderer

    def begin(self, agents: AgentState) -> None:
        """Start drawing what all agents see."""
        if not self.sensors:
            return
        if self._drawing and self._target is not None:  # pictures that nobody will ask for: an error was in the way
            self._target.close()
            self._target = None
        if self._target is None:
            # One set more than promised: the newest is being drawn while the caller still holds the others.
            self._target = self.renderer.target(
                self.camera, self.sensors, num_views=self.num_views, device=self.device, buffers=self._buffers + 1
            )
        self._drawing, self._kept = True, None
        self._begun = (self._library.generation, agents.slot.copy(), agents.position.copy(), agents.heading.copy())
        self._target.begin(agents.slot, view_matrices(agents.position, agents.heading, self.camera.eye_height))

    def finish(self) -> dict[str, Any]:
        """The pictures that ``begin`` started, one array or tensor [N, ...] a sensor."""
        if self._target is None:
            return {}
        images = self._target.finish()
        self._drawing = False
        if self._reuse_buffers or self.device == "cuda":
            return images
        if self.renderer.name == "embree":  # OpenGL's differ in the last bit by where in the framebuffer they are drawn
            self._kept = images
        return {name: image.copy() for name, image in images.items()}

    def refresh(self, agents: AgentState) -> dict[str, Any]:
        """``begin`` and ``finish``, but the pictures of agents who stand where they were last drawn are copied."""
        moved = self._moved(agents)
        if self._kept is None or moved.all():
            self.begin(agents)
            return self.finish()
        fresh = {name: image.copy() for name, image in self._kept.items()}
        rows = np.nonzero(moved)[0]
        for name, image in self._draw_some(agents, rows).items() if len(rows) else ():
            fresh[name][rows] = image
        return fresh

    def of_some(self, agents: AgentState, indices: np.ndarray) -> dict[str, Any]:
        """What the agents ``indices`` [M] see, in rows of fresh arrays or tensors [N, ...] that are zero elsewhere."""
        if not self.sensors:
            return {}
        images = self._draw_some(agents, indices)
        return {name: spread(image, indices, self.num_views) for name, image in images.items()}

    def _moved(self, agents: AgentState) -> np.ndarray:
        """Who [N] bool is in another scene or pose than when drawing was last begun; all where a slot has changed."""
        if self._begun is None or self._begun[0] != self._library.generation:
            return np.ones(self.num_views, bool)
        _, scene, position, heading = self._begun
        return (agents.slot != scene) | (agents.position != position).any(axis=1) | (agents.heading != heading)

    def _draw_some(self, agents: AgentState, indices: np.ndarray) -> dict[str, Any]:
        """What the agents ``indices`` [M] see, [M, ...], until the next call."""
        if self._partial_target is None:
            self._partial_target = self.renderer.target(
                self.camera, self.sensors, num_views=self.num_views, device=self.device, buffers=1
            )
        views = view_matrices(agents.position[indices], agents.heading[indices], self.camera.eye_height)
        try:
            return self._partial_target.render(agents.slot[indices], views)
        except BaseException:  # pictures may be under way that nobody will ask for
            self._partial_target.close()
            self._partial_target = None
            raise

    def to_device(self, array: np.ndarray) -> Any:
        """An array where the pictures are: itself, or a torch tensor."""
        if self.device == "cpu":
            return array
        from gym_batchnav.render.opengl.cuda import to_cuda

        return to_cuda(array)

    def pictures(self, agents: AgentState, indices: np.ndarray, camera: Camera) -> np.ndarray:
        """RGB pictures [M, H, W, 3] uint8 of what the agents ``indices`` [M] see through another camera."""
        if camera not in self._picture_targets:
            self._picture_targets[camera] = self.renderer.target(camera, ("rgb",), num_views=PICTURE_VIEWS, buffers=1)
        target = self._picture_targets[camera]
        pictures = np.empty((len(indices), camera.height, camera.width, 3), np.uint8)
        for first in range(0, len(indices), PICTURE_VIEWS):
            some = indices[first : first + PICTURE_VIEWS]
            views = view_matrices(agents.position[some], agents.heading[some], camera.eye_height)
            pictures[first : first + len(some)] = target.render(agents.slot[some], views)["rgb"]
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
    """The space of each picture that one agent sees."""
    highest = {
        "depth": 1.0 if camera.normalize_depth else camera.max_depth,
        "rgb": 255,
        "semantic": np.iinfo(np.int32).max,
    }
    spaces = {}
    for sensor in sensors:
        dtype, channels = SENSOR_FORMATS[sensor]
        spaces[sensor] = Box(0, highest[sensor], (camera.height, camera.width, channels), dtype.type)
    return spaces


def spread(rows: Any, indices: np.ndarray, count: int) -> Any:
    """Rows [M, ...] at the places ``indices`` [M] of an array or tensor [count, ...] of zeros."""
    shape = (count, *rows.shape[1:])
    whole = np.zeros(shape, rows.dtype) if isinstance(rows, np.ndarray) else rows.new_zeros(shape)
    whole[indices] = rows
    return whole
