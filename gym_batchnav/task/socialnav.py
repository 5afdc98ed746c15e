"""SocialNav: PointNav among others who share the world; and sensors and measures of these others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.geometry import to_agent_frame
from gym_batchnav.state import WorldView
from gym_batchnav.system.numbers import check_between, check_counts, check_finite, check_positive
from gym_batchnav.task.api import Measure, Sensor, TaskState
from gym_batchnav.task.measures import KeptMeasure
from gym_batchnav.task.pointnav import PointNav

FAR = 10.0  # metres; measures of distance report at most this


def shared_worlds(state: TaskState, name: str) -> WorldView:
    """Return the worlds of a batch; ValueError, which names what needs others, if each agent is alone."""
    if state.worlds is None:
        raise ValueError(f"{name} needs others in the world: pass agents_per_world= or bodies= to the environment")
    return state.worlds


@dataclass(frozen=True, slots=True)
class NearestBodies(Sensor):
    """The nearest others of an agent's world [count, 5] float32, as a detector of people would report them.

    A row holds metres ahead and to the right, the metres per second at which the other moves ahead and to the right as
    the agent looks, and 1; all zeros if there are fewer others. The nearest is first.

    Attributes:
        count: Number of rows.
        reach: Metres within which others are seen, on the same floor, through walls.
    """

    count: int = 4
    reach: float = 5.0

    name = "nearest_bodies"

    def __post_init__(self) -> None:
        check_counts(count=self.count)
        check_positive(reach=self.reach)

    @property
    def space(self) -> Box:  # type: ignore[override]  # a constant that depends on a field
        """The space of a reading."""
        largest = np.finfo(np.float32).max
        return Box(-largest, largest, (self.count, 5), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the readings [N, count, 5]."""
        worlds = shared_worlds(state, "NearestBodies()")
        agents = worlds.num_agents
        bodies = worlds.state
        gaps = worlds.gaps()
        nearest = np.argsort(gaps, axis=1, kind="stable")[:, : self.count]
        world = np.arange(len(gaps))[:, None] // agents
        way = bodies.position[world, nearest] - state.agents.position[:, None]
        speed = (bodies.position[world, nearest] - bodies.previous[world, nearest]) / np.float32(worlds.seconds)
        out = np.zeros((len(gaps), self.count, 5), np.float32)
        found = slice(nearest.shape[1])
        heading = state.agents.heading[:, None]
        out[:, found, 0], out[:, found, 1] = to_agent_frame(way, heading)
        out[:, found, 2], out[:, found, 3] = to_agent_frame(speed, heading)
        out[:, found, 4] = 1
        out[:, found][np.take_along_axis(gaps, nearest, axis=1) > self.reach] = 0
        return out


@dataclass(frozen=True, slots=True)
class BodyCollisions(Measure):
    """Number of steps [N] int32 in which another body stopped the agent."""

    name = "body_collisions"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the counts [N]."""
        worlds = shared_worlds(state, "BodyCollisions()")
        return worlds.state.num_touches[:, : worlds.num_agents].ravel()


@dataclass(frozen=True, slots=True)
class PersonalSpace(KeptMeasure):
    """Number of steps [N] int32 that an agent was nearer to another body than it should be.

    Attributes:
        distance: Metres between the discs of both; people keep about half a metre in passing (Hall's intimate space,
            1966).
    """

    distance: float = 0.45

    name = "personal_space_violations"

    def __post_init__(self) -> None:
        check_between(0.0, FAR, distance=self.distance)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the count."""
        return {self.name: np.zeros(num_envs, np.int32)}

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Count the agents that are too near."""
        state.buffers[self.name][:] += active & (nearest_gap(state, "PersonalSpace()") < self.distance)


@dataclass(frozen=True, slots=True)
class MinBodyDistance(KeptMeasure):
    """The least distance [N] float64 between an agent and another body so far in the episode, metres, at most 10."""

    name = "min_body_distance"

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the distance."""
        return {self.name: np.zeros(num_envs)}

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Measure the distance at the start."""
        state.buffers[self.name][indices] = nearest_gap(state, "MinBodyDistance()")[indices]

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Measure the distance now."""
        least = state.buffers[self.name]
        np.minimum(least, nearest_gap(state, "MinBodyDistance()"), out=least, where=active)


@dataclass(frozen=True, slots=True)
class TimeToCollision(Measure):
    """Seconds [N] float64 until an agent touches another body, if all went on as in the last step.

    Attributes:
        horizon: Seconds; the greatest value, and that of agents that touch nobody.
    """

    horizon: float = 5.0

    name = "time_to_collision"

    def __post_init__(self) -> None:
        check_positive(horizon=self.horizon)

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the times [N]."""
        worlds = shared_worlds(state, "TimeToCollision()")
        agents = worlds.num_agents
        bodies = worlds.state
        velocity = (bodies.position - bodies.previous)[..., ::2].astype(np.float64) / worlds.seconds
        position = bodies.position[..., ::2].astype(np.float64)
        offset = (position[:, None] - position[:, :agents, None]).reshape(-1, position.shape[1], 2)
        relative = (velocity[:, None] - velocity[:, :agents, None]).reshape(offset.shape)
        gap = worlds.gaps()
        there = np.isfinite(gap)
        reach = worlds.radius[:agents, None] + worlds.radius
        reach = np.tile(reach, (len(position), 1))
        # The discs touch at the smaller root t of |offset + t relative| = reach.
        linear = (offset * relative).sum(axis=2)
        square = (relative**2).sum(axis=2)
        discriminant = linear**2 - square * ((offset**2).sum(axis=2) - reach**2)
        meets = there & (linear < 0) & (discriminant > 0)
        time = np.full(gap.shape, self.horizon)
        np.divide(-linear - np.sqrt(np.where(meets, discriminant, 0)), square, out=time, where=meets)
        time[there & (gap <= 0) & (linear < 0)] = 0
        return np.clip(time.min(axis=1), 0, self.horizon)


def nearest_gap(state: TaskState, name: str) -> np.ndarray:
    """Return the distance [N] float64 from each agent to the nearest other body, metres, from 0 to 10."""
    return np.clip(shared_worlds(state, name).gaps().min(axis=1), 0, FAR)


@dataclass(frozen=True, slots=True)
class SocialNav(PointNav):
    """Go to a point among people: PointNav with penalties for touching them and for coming too near.

    Attributes:
        touch_reward: Reward of a step in which another body stops the agent.
        near_reward: Reward of a step in which the agent is nearer to another body than ``personal_space``.
        personal_space: Metres between the discs of both.
        detector: The sensor of the others; None for agents that must see them in images.
    """

    touch_reward: float = -0.1
    near_reward: float = -0.02
    personal_space: float = 0.45
    detector: Sensor | None = field(default=NearestBodies())

    def __post_init__(self) -> None:
        PointNav.__post_init__(self)
        check_finite(touch_reward=self.touch_reward, near_reward=self.near_reward)
        check_between(0.0, FAR, personal_space=self.personal_space)

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The sensor of the goal, and that of the others."""
        return (self.goal_sensor,) if self.detector is None else (self.goal_sensor, self.detector)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """PointNav's measures, and those of the others."""
        space = PersonalSpace(self.personal_space)
        return (*PointNav.measures, BodyCollisions(), space, MinBodyDistance(), TimeToCollision())

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        worlds = shared_worlds(state, "SocialNav()")
        touched = worlds.state.touched[:, : worlds.num_agents].ravel()
        near = nearest_gap(state, "SocialNav()") < self.personal_space
        return PointNav.reward(self, state, measures) + self.touch_reward * touched + self.near_reward * near
