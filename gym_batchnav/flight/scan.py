"""DroneNav with observations of one array, for libraries without Dict support: depth all around, goal and velocity."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.flat import OneArray
from gym_batchnav.flight.actions import FlightActions
from gym_batchnav.flight.task import BodyVelocity, GoalVector
from gym_batchnav.geometry import Camera

_FRONT = Camera(width=8, height=8, hfov_deg=90.0, eye_height=0.0, max_depth=5.0)
_YAWS = {"front": 0.0, "left": 90.0, "back": 180.0, "right": -90.0}  # degrees
FLIGHT_CAMERAS = MappingProxyType({name: replace(_FRONT, yaw_deg=yaw) for name, yaw in _YAWS.items()})


class FlightScan(OneArray):
    """Depths all around, the goal and the velocity in one row [D + 7] float32: ``BatchNav/DroneNav-v0`` without images.

    The first D numbers are the depths of all cameras in [0, 1], camera by camera and row by row. Then come the unit
    vector to the goal (ahead, up, to the right), d / (1 + d) for its distance d in metres, and the velocity (ahead, up,
    to the right) as a share of the greatest speed. Without sensors D is 0.

    Args:
        env: A batch with the task DroneNav whose only sensor is depth, or that has none.

    Raises:
        ValueError: The batch has other sensors, or depth in metres.
    """

    task_sensors = frozenset((GoalVector.name, BodyVelocity.name))
    keywords = MappingProxyType({**OneArray.keywords, "camera": FLIGHT_CAMERAS})

    def __init__(self, env: BatchNavEnv) -> None:
        rig = env.cameras.rig
        kinds = {recording.sensor for recording in rig.recordings.values()}
        if kinds - {"depth"}:
            raise ValueError(
                f"sensors={env.cameras.rig.keys!r}: a scan takes ('depth',) or (); use BatchNav/DroneNav-v0"
            )
        if not all(camera.normalize_depth for camera in rig.cameras.values()):
            raise ValueError("normalize_depth=False: a scan lies in [0, 1]; leave it True and set max_depth")
        actions = env.actions
        self._speed = actions.max_speed if isinstance(actions, FlightActions) else 1.0
        self._keys = rig.keys
        num_depths = sum(int(np.prod(box.shape)) for box in rig.spaces.values())
        low = np.concatenate([np.zeros(num_depths), -np.ones(3), [0], -np.ones(3)]).astype(np.float32)
        self._low = low
        super().__init__(env, Box(low, np.ones_like(low), dtype=np.float32))

    def encode(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """Concatenate depths, goal and velocity."""
        goal = observation[GoalVector.name]
        distance = np.linalg.norm(goal, axis=1, keepdims=True)
        direction = np.divide(goal, distance, out=np.zeros_like(goal), where=distance > 0)
        depths = [observation[key].reshape(len(goal), -1) for key in self._keys]
        velocity = observation[BodyVelocity.name] / np.float32(self._speed)
        row = np.concatenate([*depths, direction, distance / (1 + distance), velocity], axis=1)
        return np.clip(row, self._low, 1, dtype=np.float32)  # rounding
