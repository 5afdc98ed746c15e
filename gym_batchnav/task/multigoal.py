"""MultiGoalNav: go to several points in a given order, and call STOP at each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.episodes.samplers import TourEpisodes
from gym_batchnav.system.numbers import check_finite, check_length
from gym_batchnav.task.api import Measure, Sensor, Task, TaskState
from gym_batchnav.task.measures import SPL, CollisionsCount, DistanceToGoal, PathLength, efficiency
from gym_batchnav.task.pointnav import progress
from gym_batchnav.task.sensors import PointGoal


@dataclass(frozen=True, slots=True)
class GoalsLeft(Sensor):
    """The number of goals that are left [1] int64."""

    name = "goals_left"
    space = Box(0, 100, (1,), np.int64)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the numbers [N, 1]."""
        return (state.episodes.num_goals - state.episodes.num_reached).astype(np.int64)[:, None]


@dataclass(frozen=True, slots=True)
class TourProgress(Measure):
    """The fraction [N] float64 of an episode's goals that have been reached: MultiON's "progress"."""

    name = "progress"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the fractions [N]."""
        return state.episodes.num_reached / state.episodes.num_goals


@dataclass(frozen=True, slots=True)
class PPL(Measure):
    """Progress weighted by path length [N] float64 (MultiON, Wani et al. 2020).

    It is ``progress * d / max(d, path)``, where d is the length of the shortest tour of the goals that were reached.
    """

    name = "ppl"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return PPL [N]."""
        return TourProgress().measure(state) * efficiency(state.episodes.reached_distance, state.episodes.path_length)


@dataclass(frozen=True, slots=True)
class TourSuccess(Measure):
    """Whether each agent [N] bool has reached all goals of its episode."""

    name = "success"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return success [N]."""
        return state.episodes.num_reached == state.episodes.num_goals


@dataclass(frozen=True, slots=True)
class MultiGoalNav(Task):
    """Several point goals in a given order, by the rules of MultiON (Wani et al. 2020, arXiv 2012.03912).

    The agent senses its next goal. STOP within ``success_distance`` of it counts as MultiON's FOUND: the goal is
    reached, and the next one takes its place. STOP anywhere else ends the episode as a failure, and reaching the last
    goal ends it as a success. Distances are geodesic, where MultiON's are straight.

    Attributes:
        num_goals: Number of goals per episode.
        success_distance: Geodesic metres below which STOP reaches a goal.
        goal_reward: Reward of reaching a goal.
        step_reward: Reward of every step.
    """

    num_goals: int = 3
    success_distance: float = 1.5
    goal_reward: float = 2.5
    step_reward: float = -0.01

    sensors = (PointGoal(), GoalsLeft())
    measures = (
        DistanceToGoal(),
        PathLength(),
        CollisionsCount(),
        TourProgress(),
        TourSuccess(),
        SPL(TourSuccess()),  # relative to the shortest tour of all goals in their order
        PPL(),
    )

    def __post_init__(self) -> None:
        check_length(success_distance=self.success_distance)
        check_finite(goal_reward=self.goal_reward, step_reward=self.step_reward)
        _ = self.sampler  # checks the number of goals

    @property
    def sampler(self) -> TourEpisodes:  # type: ignore[override]  # a constant that depends on a field
        """Samples the tours."""
        return TourEpisodes(self.num_goals)

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step: progress towards the next goal, and a bonus at each goal."""
        return self.step_reward + progress(state.episodes) + self.goal_reward * state.episodes.reached

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return whether each agent [N] bool reached its last goal, or called STOP away from its goal."""
        episodes = state.episodes
        return episodes.stopped & (~episodes.reached | (episodes.num_reached == episodes.num_goals))
