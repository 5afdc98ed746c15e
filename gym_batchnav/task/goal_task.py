"""GoalTask: the common base of tasks with one goal, and progress towards a goal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gym_batchnav.state import EpisodeState
from gym_batchnav.system.numbers import check_finite, check_length
from gym_batchnav.task.api import Task, TaskState
from gym_batchnav.task.measures import SPL, CollisionsCount, DistanceToGoal, PathLength, SoftSPL, Success


class GoalTask(Task):
    """A task in which STOP ends the episode, and is a success within ``success_distance`` of the goal.

    The reward of a step is ``step_reward`` plus the progress towards the goal in metres, and ``success_reward`` on
    success. Subclasses are dataclasses with these fields.

    Attributes:
        success_reward: Reward of a success.
        step_reward: Reward of every step.
    """

    success_reward: float = 2.5
    step_reward: float = -0.01

    measures = (DistanceToGoal(), PathLength(), CollisionsCount(), Success(), SPL(), SoftSPL())

    def __post_init__(self) -> None:
        """Raise ValueError unless the distance is positive and the rewards are finite."""
        check_length(success_distance=self.success_distance)
        check_finite(success_reward=self.success_reward, step_reward=self.step_reward)

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        return self.step_reward + progress(state.episodes) + self.success_reward * measures["success"]


def progress(episodes: EpisodeState) -> np.ndarray:
    """Return the progress [N] towards the goal, metres; 0 where the goal is unreachable, such as after ``set_pose``."""
    reachable = np.isfinite(episodes.previous_distance) & np.isfinite(episodes.distance)
    return np.subtract(
        episodes.previous_distance, episodes.distance, out=np.zeros_like(episodes.distance), where=reachable
    )
