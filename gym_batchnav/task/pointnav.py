"""PointNav: go to a point whose distance and direction are known, and call STOP there; and the base of such tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gym_batchnav.episodes.samplers import EpisodeSampler, PointEpisodes
from gym_batchnav.state import EpisodeState
from gym_batchnav.system.numbers import check_finite, check_flags, check_length
from gym_batchnav.task.api import Sensor, Task, TaskState
from gym_batchnav.task.measures import SPL, CollisionsCount, DistanceToGoal, PathLength, SoftSPL, Success
from gym_batchnav.task.sensors import PointGoal

_POINTS = PointEpisodes()


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


@dataclass(frozen=True, slots=True)
class PointNav(GoalTask):
    """Habitat's PointNav: STOP ends the episode, and is a success within ``success_distance`` of the goal.

    Attributes:
        success_distance: Geodesic metres below which STOP succeeds.
        success_reward: Reward of a success (times SPL if ``spl_reward``).
        step_reward: Reward of every step.
        spl_reward: Make the reward of the last step ``step_reward + success_reward * SPL``, without progress, as in the
            paper.
        goal_sensor: The sensor of the goal: ``PointGoal()``, relative to the agent's pose, or ``StaticPointGoal()``,
            the goal as seen from the start. ``sensors=(GPS(), Compass())`` of the environment adds the pose.
        sampler: The kind of episodes, such as ``PointEpisodes(max_distance=3)`` of ``gym_batchnav.episodes.samplers``
            for near goals. Other distances replace the episodes that come with a scene, and read no file.
    """

    success_distance: float = 0.2
    success_reward: float = 2.5
    step_reward: float = -0.01
    spl_reward: bool = False
    goal_sensor: Sensor = field(default=PointGoal())
    sampler: EpisodeSampler = field(default=_POINTS, repr=False)

    def __init_subclass__(cls) -> None:
        super(PointNav, cls).__init_subclass__()  # slots=True makes another class
        own = cls.__dict__.get("sampler")
        if isinstance(own, property):  # as in other tasks; the field's value is not kept
            cls.sampler = own.setter(lambda self, value: None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        constant: object = type(self).sampler
        own = constant is not PointNav.sampler and not isinstance(constant, property)
        if own and self.sampler is _POINTS:  # the constant of a subclass, as in other tasks
            object.__setattr__(self, "sampler", constant)
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
