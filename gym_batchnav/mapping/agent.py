"""An agent that follows its map: what mapping achieves without learning."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.state import Action
from gym_batchnav.task.sensors import PointGoal

_AHEAD = 0.75  # of a turn's angle, within which the agent walks on; with half of it, it could turn to and fro


class MapAgent:
    """Follows the paths that it plans on its map (sensor ``MapPath``), and calls STOP at the goal. It learns nothing.

    It sees what a policy may see: its depth camera's images and the goal's direction.
    """

    env_keywords = MappingProxyType({"sensors": (MapPath(),)})

    def check(self, env: Any) -> None:
        """Raise ValueError unless the environment has the actions and the sensors."""
        kind = env.simulator.actions
        if not isinstance(kind, DiscreteActions):
            raise ValueError(f"MapAgent needs actions=DiscreteActions(), not {kind}")
        for sensor in (MapPath, PointGoal):
            if sensor.name not in env.components.sensors:
                raise ValueError(f"MapAgent reads {sensor.name!r}: add {sensor.__name__}() to sensors=")

    def reset(self, env: Any) -> None:
        """Check the environment, and read the angle of its turns."""
        self.check(env)
        self._turn_angle = env.simulator.actions.turn_angle

    def act(self, env: Any, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return actions [N] int64."""
        way = np.asarray(observation[MapPath.name])
        distance = np.asarray(observation[PointGoal.name])[:, 0]
        angle = np.arctan2(way[:, 3], way[:, 2])
        turn = np.where(angle > 0, int(Action.TURN_LEFT), int(Action.TURN_RIGHT))
        actions = np.where(np.abs(angle) > _AHEAD * self._turn_angle, turn, int(Action.MOVE_FORWARD))
        return np.where(distance < env.task.success_distance, int(Action.STOP), actions)
