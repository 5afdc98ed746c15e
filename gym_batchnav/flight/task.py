"""DroneNav: fly to a point in space whose place relative to the body is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.episodes.samplers import EpisodeSampler
from gym_batchnav.flight.actions import to_body
from gym_batchnav.flight.agents import VELOCITY
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.system.numbers import check_finite, check_length
from gym_batchnav.task.api import Measure, Sensor, Task, TaskState
from gym_batchnav.task.measures import SPL, CollisionsCount, DistanceToGoal, PathLength, SoftSPL
from gym_batchnav.task.pointnav import progress

_ANY = np.finfo(np.float32).max


@dataclass(frozen=True, slots=True)
class GoalVector(Sensor):
    """The goal relative to the agent [3] float32, metres: ahead, up and to the right."""

    name = "goal_vector"
    space = Box(-_ANY, _ANY, (3,), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the goals [N, 3]."""
        return to_body(state.episodes.goal - state.agents.position, state.agents.heading).astype(np.float32)


@dataclass(frozen=True, slots=True)
class BodyVelocity(Sensor):
    """The velocity of a flying agent [3] float32, metres per second: ahead, up and to the right."""

    name = "velocity"
    space = Box(-_ANY, _ANY, (3,), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the velocities [N, 3]."""
        return to_body(state.buffers[VELOCITY], state.agents.heading).astype(np.float32)


@dataclass(frozen=True, slots=True)
class ReachedGoal(Measure):
    """Whether each agent [N] bool is within the task's ``success_distance`` of its goal; no STOP is needed."""

    name = "success"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return success [N]."""
        return state.episodes.distance < state.success_distance


@dataclass(frozen=True, slots=True)
class DroneNav(Task):
    """Point-goal navigation in three dimensions: an episode ends with success as soon as the agent reaches the goal.

    It needs ``actions=FlightActions()``, and a camera at the centre of the agent, ``Camera(eye_height=0)``; both are
    the defaults of ``BatchNav/DroneNav-v0``. The reward of a step is ``step_reward`` plus the progress on the shortest
    path in metres, ``collision_reward`` if the agent touched a surface, and ``success_reward`` at the goal.

    Attributes:
        success_distance: Metres of shortest path below which the goal is reached.
        success_reward: Reward of a success.
        step_reward: Reward of every step.
        collision_reward: Reward of a step in which the agent flew against a surface.
        sampler: The kind of episodes, with the size of the agent.
    """

    success_distance: float = 0.5
    success_reward: float = 2.5
    step_reward: float = -0.01
    collision_reward: float = 0.0
    sampler: EpisodeSampler = field(default=FlightEpisodes())

    sensors = (GoalVector(), BodyVelocity())
    measures = (
        DistanceToGoal(), PathLength(), CollisionsCount(), ReachedGoal(), SPL(success=ReachedGoal()), SoftSPL(),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_length(success_distance=self.success_distance)
        check_finite(
            success_reward=self.success_reward, step_reward=self.step_reward, collision_reward=self.collision_reward
        )
        if not isinstance(self.sampler, FlightEpisodes):
            raise ValueError(f"sampler={self.sampler!r}: pass a FlightEpisodes")

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the numbers of collisions before and after the last step."""
        return {"dronenav_collisions": np.zeros((num_envs, 2), np.int32)}

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Count the collisions of the step."""
        counts = state.buffers["dronenav_collisions"]
        counts[:, 0] = counts[:, 1]
        counts[:, 1] = state.episodes.num_collisions

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        before, after = state.buffers["dronenav_collisions"].T
        reward = self.step_reward + progress(state.episodes) + self.success_reward * self._reached(state)
        return reward + self.collision_reward * (after > before)

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return whether each agent [N] bool has reached its goal."""
        return self._reached(state)

    def _reached(self, state: TaskState) -> np.ndarray:
        return state.episodes.distance < self.success_distance
