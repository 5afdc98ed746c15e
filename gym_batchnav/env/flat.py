"""Single-array observations, for libraries without Dict support: a depth scan or an image, with the goal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorWrapper
from gymnasium.vector.utils import batch_space

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.cameras import ONLY, USUAL_BUFFERS, scatter
from gym_batchnav.geometry import Camera
from gym_batchnav.render.interleave import NUM_GOAL_VALUES, interleave
from gym_batchnav.task.sensors import PointGoal

GOAL = PointGoal.name
# The camera is low because obstacles are low: rays at 0.25 m hit 98 to 99% of them, rays at the usual 1.25 m only 79 to
# 84%. Lower rays would hit things that agents step over (up to 0.2 m). A wide view shows the sides of doorways.
SCAN_CAMERA = Camera(width=64, height=1, hfov_deg=120.0, eye_height=0.25)


def encode_goal(goal: np.ndarray) -> np.ndarray:
    """Encode goals [N, 2], d metres away at angles of a radians, as numbers in [-1, 1] that vary smoothly.

    These are [N, 3] float32: cos a, sin a, d / (1 + d).
    """
    distance = goal[:, 0]
    angle = goal[:, 1]
    return np.stack([np.cos(angle), np.sin(angle), distance / (1 + distance)], axis=1).astype(np.float32, copy=False)


class OneArray(VectorWrapper):
    """A batch whose observations, including ``final_obs``, are one array; supports all three autoreset modes.

    Each step returns a fresh array. ``unwrapped`` is the batch itself, with its own observations.

    Raises:
        ValueError: The task has other sensors, or images are on a GPU.
    """

    env: BatchNavEnv
    task_sensors: frozenset[str] = frozenset((GOAL,))  # those that the array holds
    # Of a batch that is made for this wrapper, unless the user passes them. Images are copied into the one array.
    keywords: Mapping[str, Any] = MappingProxyType({"buffers": USUAL_BUFFERS})

    def __init__(self, env: BatchNavEnv, space: Box) -> None:
        super().__init__(env)
        if env.cameras.device != "cpu":
            raise ValueError(
                f"obs_device={env.cameras.device!r}: observations that are one array are made on the CPU; use 'cpu', "
                "or an id with dict observations, such as BatchNav/PointNav-v0"
            )
        names = set(env.components.spaces)
        if names != self.task_sensors:
            held = ", ".join(map(repr, sorted(self.task_sensors)))
            raise ValueError(
                f"task sensors {sorted(names)}: an observation that is one array holds only {held}; use an id with "
                "dict observations, such as BatchNav/PointNav-v0"
            )
        self._shape = space.shape
        self.single_observation_space = space
        self.observation_space = batch_space(space, env.num_envs)

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """When the next episode begins."""
        return self.env.autoreset_mode

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask, as the batch does."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.encode(observation), info

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in every environment, as the batch does."""
        observation, reward, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            ended = np.nonzero(info["_final_obs"])[0]
            rows = self.encode({name: values[ended] for name, values in info["final_obs"].items()})
            info["final_obs"] = scatter(rows, ended, self.num_envs)
        return self.encode(observation), reward, terminated, truncated, info

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of the batch, or read an attribute, and return one result per environment."""
        return self.env.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the batch, once per environment."""
        return self.env.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the batch."""
        self.env.set_attr(name, values)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return self.env._repr_mimebundle_(include, exclude)

    def encode(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Encode the observations of M environments as one array [M, ...]."""
        raise NotImplementedError


def _only_camera(env: BatchNavEnv) -> Camera:
    """Return the camera of a batch; raise ValueError if its cameras have names."""
    names = list(env.cameras.rig.cameras)
    if names != [ONLY]:
        raise ValueError(
            f"camera= with the cameras {names}: an observation that is one array holds the images of one camera; pass "
            "a Camera without a name, or use BatchNav/PointNav-v0"
        )
    return env.cameras.rig.first


class ScanObservation(OneArray):
    """A depth scan and the goal in one row [W + 3] float32: ``BatchNav/PointNav-v0`` without images.

    The first W numbers are depths from left to right in [0, 1], as the camera encodes them (see
    ``Camera.normalize_depth``); the last three are those of ``encode_goal``.

    Args:
        env: A batch whose only sensor is depth, with a camera one pixel high.

    Raises:
        ValueError: The batch has other sensors or another camera.
    """

    keywords = MappingProxyType({**OneArray.keywords, "camera": SCAN_CAMERA})

    def __init__(self, env: BatchNavEnv) -> None:
        camera = _only_camera(env)
        sensors = env.cameras.rig.keys
        if sensors != ("depth",):
            raise ValueError(f"sensors={sensors!r}: a scan needs ('depth',); use BatchNav/PointNavImage-v0 for others")
        if camera.height != 1:
            size = f"{camera.width}x{camera.height}"
            raise ValueError(f"camera of {size} pixels: a scan is one pixel high; pass Camera(width=..., height=1)")
        if not camera.normalize_depth:
            raise ValueError("normalize_depth=False: a scan lies in [0, 1]; leave it True and set max_depth")
        low = np.concatenate([np.zeros(camera.width), [-1, -1, 0]]).astype(np.float32)
        super().__init__(env, Box(low, np.ones_like(low), dtype=np.float32))

    def encode(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Concatenate depth and goal."""
        depth = observation["depth"]
        row = np.empty((len(depth), *self._shape), np.float32)
        row[:, :-NUM_GOAL_VALUES] = depth.reshape(len(depth), -1)
        row[:, -NUM_GOAL_VALUES:] = encode_goal(observation[GOAL])
        return row


class ImageObservation(OneArray):
    """An image [H, W, C] uint8 with the goal as its last three channels, for networks that take one image.

    The channels are red, green, blue (sensor ``"rgb"``), depth (sensor ``"depth"``), then the goal. Each goal channel
    is constant over the image: ``128 + 127 cos a``, ``128 + 127 sin a`` and ``255 d / (1 + d)``, rounded, for a goal at
    angle a and distance d. Depth is the camera's, scaled so that its greatest value becomes 255, and rounded. Decoding
    recovers the angle within 0.4 degrees, the distance within ``(1 + d)^2 / 500`` metres and the depth within
    ``(max_depth - min_depth) / 510``, or ``max_depth / 510`` without ``normalize_depth``.

    Args:
        env: A batch with the sensors ``("rgb",)``, ``("depth",)`` or both.

    Raises:
        ValueError: The batch has other sensors.
    """

    keywords = MappingProxyType({**OneArray.keywords, "sensors": ("rgb", "depth")})

    def __init__(self, env: BatchNavEnv) -> None:
        camera = _only_camera(env)
        sensors = env.cameras.rig.keys
        if not sensors or set(sensors) - {"rgb", "depth"}:
            raise ValueError(f"sensors={sensors!r}: an image needs 'rgb', 'depth' or both, such as ('rgb', 'depth')")
        channels = 3 * ("rgb" in sensors) + ("depth" in sensors) + NUM_GOAL_VALUES
        super().__init__(env, Box(0, 255, (camera.height, camera.width, channels), np.uint8))
        self._depth_scale = np.float32(255 / camera.depth_encoding.high)

    def encode(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Interleave images and goal, pixel by pixel."""
        goal = encode_goal(observation[GOAL])
        levels = np.rint(goal * np.array([127, 127, 255]) + np.array([128, 128, 0])).astype(np.uint8)
        image = np.empty((len(goal), *self._shape), np.uint8)
        interleave(observation.get("rgb"), observation.get("depth"), self._depth_scale, levels, image)
        return image
