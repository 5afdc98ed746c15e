"""PointNav: go to a point whose distance and direction are known, and call STOP there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gym_batchnav.system.numbers import check_flags
from gym_batchnav.task.api import Sensor, TaskState
from gym_batchnav.task.goal_task import GoalTask, progress
from gym_batchnav.task.sensors import PointGoal


@dataclass(frozen=True, slots=True)
class PointNav(GoalTask):
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

    def __post_init__(self) -> None:
        """Raise ValueError unless every number is finite, and ``spl_reward`` is a bool."""
        GoalTask.__post_init__(self)
        check_flags(spl_reward=self.spl_reward)

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The sensor of the goal."""
        return (self.goal_sensor,)

    @classmethod
    def bps_paper(cls) -> PointNav:
        """Return the task with the reward of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021).

        The TimeLimit of ``gymnasium.make`` is hidden from a task, which then pays progress at a time-out, too. Pass
        ``protocol="bps-2021"``, which sets the limit, or use ``gymnasium.make_vec``.
        """
        return cls(spl_reward=True)

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        if not self.spl_reward:
            return GoalTask.reward(self, state, measures)
        last = state.episodes.stopped | state.timed_out
        return self.step_reward + np.where(last, self.success_reward * measures["spl"], progress(state.episodes))
