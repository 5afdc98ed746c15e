"""MapPath: the way to the goal on a map that the agent draws of what its depth camera sees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.geometry import Camera, CameraPlaces
from gym_batchnav.mapping.drawing import Band, Maps, Poses, View, draw_all
from gym_batchnav.mapping.planning import MOST_CELLS, Paths, follow_all
from gym_batchnav.state import check_values
from gym_batchnav.system.numbers import check_between, check_length
from gym_batchnav.system.process import PARALLEL_KERNELS
from gym_batchnav.task.api import Image, Sensor, TaskState

_ANY = np.finfo(np.float32).max
_CELLS = "map_cells"  # names in the batch's buffers
_PLACES = "map_places"
_PATH = "map_path_cells"
_COUNTS = "map_path_counts"
_COSTS = "map_path_costs"
_GOALS = "map_path_goals"
_READING = "map_path_reading"
_LAST = "map_last_places"
_KEPT_PATH = 64  # cells; the rest of a longer path is planned again later
_RISE = 0.04  # metres per metre of distance
_FAR = 2.0**31  # metres, or collisions; whatever is farther does not come from agents
_LEAST_DEPTH = 0.01  # metres; what reads less was not hit


@dataclass(frozen=True, slots=True)
class MapPath(Sensor):
    """The way to the goal [4] float32 on a map of what the agent has seen in this episode.

    The agent draws a grid map from its depth images, its position and its heading, as robots with GPS and compass do,
    and plans a shortest path to the goal on it. Where it has never looked, it expects to find free floor. The reading
    is the cost of the path in metres, with surcharges next to obstacles; metres to the farthest place on it, at most
    ``reach`` along the path, to which the agent can walk straight; and cosine and sine of that place's direction, left
    positive.

    Nothing but images and poses enters: neither the navmesh nor anything unseen. Noise of images enters the map. The
    point goal is part of the reading, so do not add the sensor to tasks that hide it, such as ObjectNav. A map covers
    ``num_cells * cell_size`` metres and moves with the agent; what falls behind its border is forgotten, and so is a
    storey that the agent leaves.

    With n = ``num_cells``, a map takes n * n bytes per environment, and planning up to 24 * n * n bytes per thread:
    64 KiB and 1.5 MiB for 256 cells, 1 MiB and 24 MiB for 1024.

    Attributes:
        cell_size: Side of a cell, metres.
        num_cells: Cells along each side of the map, 16 to 1024.
        reach: Metres along the path, of which a diagonal step between cells counts as the side of one.
        lowest: Lower things, in metres above the floor, are not obstacles. It rises by 0.04 m per metre of distance.
        highest: Higher things, in metres above the floor, are not obstacles.
        image: Key of the depth image in the observation, such as ``"front/depth"``. Its camera must be a pinhole
            without roll.

    Raises:
        ValueError: A number is out of range.
    """

    cell_size: float = 0.15
    num_cells: int = 256
    reach: float = 1.5
    lowest: float = 0.2
    highest: float = 1.5
    image: str = "depth"

    name = "map_path"
    space = Box(np.array([0, 0, -1, -1], np.float32), np.array([_ANY, _ANY, 1, 1], np.float32), dtype=np.float32)

    def __post_init__(self) -> None:
        check_between(1e-3, 1e3, cell_size=self.cell_size)
        check_length(reach=self.reach, highest=self.highest)
        check_between(0, self.highest, lowest=self.lowest)
        side = self.num_cells
        if isinstance(side, bool) or not isinstance(side, (int, np.integer)) or not 16 <= side <= MOST_CELLS:
            raise ValueError(f"num_cells={side!r}: pass a whole number from 16 to {MOST_CELLS}")

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for maps and paths."""
        return {
            _CELLS: np.zeros((num_envs, self.num_cells, self.num_cells), np.uint8),
            _PLACES: np.zeros((num_envs, 3)),
            _PATH: np.zeros((num_envs, _KEPT_PATH, 2), np.int16),
            _COUNTS: np.zeros(num_envs, np.int32),
            _COSTS: np.zeros(num_envs, np.int32),
            _GOALS: np.zeros((num_envs, 2)),
            _READING: np.zeros((num_envs, 4), np.float32),
            _LAST: np.zeros((num_envs, 3)),
        }

    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless the paths lie inside the maps, and the maps near the agents."""
        check_values(_PATH, buffers[_PATH], 0, self.num_cells - 1)
        check_values(_COUNTS, buffers[_COUNTS], 0, _KEPT_PATH)
        for name in (_PLACES, _GOALS, _LAST):
            check_values(name, buffers[name], -_FAR, _FAR)
        check_values(_READING, buffers[_READING][:, :2], 0, float(_ANY))
        check_values(_READING, buffers[_READING][:, 2:], -1, 1)

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Place the middle of the maps at the agents' starts."""
        state.buffers[_PLACES][indices] = state.agents.position[indices][:, [0, 2, 1]]

    @property
    def images(self) -> tuple[str, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The key of the depth image."""
        return (self.image,)

    def see(self, state: TaskState, images: Mapping[str, Image], rows: np.ndarray) -> None:
        """Draw the images of agents ``rows`` [M] into their maps, and follow or plan their paths.

        Raises:
            ValueError: The image is not the depth of a pinhole without roll.
        """
        buffers = state.buffers
        maps = Maps(buffers[_CELLS], buffers[_PLACES], buffers[_COUNTS], buffers[_LAST], float(self.cell_size))
        paths = Paths(buffers[_PATH], buffers[_COUNTS], buffers[_COSTS], buffers[_GOALS], float(self.reach))
        depth = images[self.image]
        if depth.pixels.dtype != np.float32 or depth.pixels.shape[-1] != 1:
            raise ValueError(f"MapPath(image={self.image!r}) reads depth, which this image is not: name a depth image")
        rows = rows.astype(np.int64)
        poses = _poses(state, depth, rows)
        goal = state.episodes.goal[rows].astype(np.float64)
        band = Band(float(self.lowest), _RISE, float(self.highest))
        view = view_of(depth.camera)
        with PARALLEL_KERNELS:
            draw_all(maps, rows, depth.pixels, poses, view, band)
            follow_all(maps, paths, rows, poses, goal, buffers[_READING])

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the ways [N, 4] as of the last images."""
        return state.buffers[_READING]


def _poses(state: TaskState, image: Image, rows: np.ndarray) -> Poses:
    """Return the poses of agents ``rows`` [M] and of their cameras."""
    agents = state.agents
    camera = image.camera
    places = image.places
    if places is None:
        own = (camera.eye_height, math.radians(camera.pitch_deg), math.radians(camera.yaw_deg))
        places = CameraPlaces(*(np.full(len(rows), one) for one in own))
    return Poses(
        position=agents.position[rows].astype(np.float64),
        heading=agents.heading[rows].astype(np.float64),
        collisions=state.episodes.num_collisions[rows].astype(np.int64),
        eye_height=places.eye_height.astype(np.float64),
        yaw=places.yaw.astype(np.float64),
        pitch=places.pitch + agents.pitch[rows].astype(np.float64),
    )


def view_of(camera: Camera) -> View:
    """Return the description of a camera for kernels.

    Raises:
        ValueError: No map can be drawn of its images.
    """
    if camera.lens is not None or camera.roll_deg:
        raise ValueError(
            f"sensor {MapPath.name!r} reads the depth of a pinhole without roll, not of {camera}: leave out lens= and "
            "roll_deg="
        )
    encoding = camera.depth_encoding
    return View(
        tan_half_width=camera.tan_half_width,
        tan_half_height=camera.tan_half_height,
        right=float(camera.offset[0]),
        forward=float(camera.offset[1]),
        unit=float(encoding.unit),
        offset=float(encoding.offset),
        nearest=max(encoding.nearest, _LEAST_DEPTH),
        farthest=encoding.farthest * (1 - 1e-6),
    )


def map_small_image() -> None:
    """Draw a map of one small image, and plan a path on it."""
    maps = Maps(np.zeros((1, 16, 16), np.uint8), np.zeros((1, 3)), np.zeros(1, np.int32), np.zeros((1, 3)), 0.1)
    paths = Paths(np.zeros((1, 8, 2), np.int16), maps.counts, np.zeros(1, np.int32), np.zeros((1, 2)), 1.0)
    rows = np.zeros(1, np.int64)
    depth = np.ones((1, 2, 2, 1), np.float32)
    point = np.zeros((1, 3))
    zero = np.zeros(1)
    poses = Poses(point, zero, rows, zero, zero, zero)
    draw_all(maps, rows, depth, poses, view_of(Camera(2, 2)), Band(0.2, 0.0, 1.5))
    follow_all(maps, paths, rows, poses, point, np.zeros((1, 4), np.float32))
