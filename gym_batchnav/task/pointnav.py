"""PointNav: go to a point whose distance and direction are known, and call STOP there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gym_batchnav.state import EpisodeState
from gym_batchnav.task.api import Sensor, Task, TaskState
from gym_batchnav.task.measures import SPL, CollisionsCount, DistanceToGoal, PathLength, SoftSPL, Success
from gym_batchnav.task.sensors import PointGoal


@dataclass(frozen=True, slots=True)
class PointNav(Task):
    """Habitat's PointNav: STOP ends the episode, and is a success within ``success_distance`` of the goal.

    Attributes:
        success_distance: Geodesic metres below which STOP succeeds.
        success_reward: Reward of a success (times SPL if ``spl_reward``).
        step_reward: Reward of every step.
        spl_reward: Make the reward of the last step ``step_reward + success_reward * SPL``, without progress, as in the
            paper.
        goal_sensor: The sensor of the goal: ``PointGoal()``, which knows the agent's pose, or ``StaticPointGoal()``,
            the goal as seen from the start. ``sensors=(GPS(), Compass())`` of the environment adds the pose.
    """

    success_distance: float = 0.2
    success_reward: float = 2.5
    step_reward: float = -0.01
    spl_reward: bool = False
    goal_sensor: Sensor = field(default=PointGoal())

    measures = (DistanceToGoal(), PathLength(), CollisionsCount(), Success(), SPL(), SoftSPL())

    def __post_init__(self) -> None:
        """Raise ValueError unless every number is finite, and ``spl_reward`` is a bool."""
        for name in ("success_distance", "success_reward", "step_reward"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            if not (is_number and np.isfinite(value)):
                raise ValueError(f"{name}={value!r}: pass a finite number")
        if self.success_distance <= 0:
            raise ValueError(f"success_distance={self.success_distance!r}: pass a positive number of metres")
        if not isinstance(self.spl_reward, (bool, np.bool_)):
            raise ValueError(f"spl_reward={self.spl_reward!r}: pass True or False")

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The sensor of the goal."""
        return (self.goal_sensor,)

    @classmethod
    def bps_paper(cls) -> PointNav:
        """Return the task with the reward of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021)."""
        return cls(spl_reward=True)

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        gained = progress(state.episodes)
        if self.spl_reward:
            last = state.episodes.stopped | state.timed_out
            return self.step_reward + np.where(last, self.success_reward * measures["spl"], gained)
        return self.step_reward + gained + self.success_reward * measures["success"]


def progress(episodes: EpisodeState) -> np.ndarray:
    """Return the progress [N] towards the goal, metres; 0 where the goal is unreachable, such as after ``set_pose``."""
    reachable = np.isfinite(episodes.previous_distance) & np.isfinite(episodes.distance)
    return np.subtract(
        episodes.previous_distance, episodes.distance, out=np.zeros_like(episodes.distance), where=reachable
    )
