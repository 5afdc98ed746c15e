"""Tag and Rendezvous: the agents of a world chase each other, or gather."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.geometry import to_agent_frame
from gym_batchnav.system.numbers import check_counts, check_finite, check_length
from gym_batchnav.task.api import Measure, Sensor, Task, TaskState
from gym_batchnav.task.measures import CollisionsCount, KeptMeasure, PathLength
from gym_batchnav.task.socialnav import BodyCollisions, shared_worlds

FAR = 30.0  # metres; the distance of agents between which there is no path


@dataclass(frozen=True, slots=True)
class Players(Sensor):
    """The other agents of an agent's world [num_others, 3] float32: metres ahead and to the right, and their team.

    The team is 1 for the agent's own, -1 for the other one, and 0 with zeros for an agent that has left the world. The
    order is that of the agents' numbers.

    Attributes:
        num_others: M - 1.
        num_runners: The first agents of a world form one team, the rest the other one; 0 for a single team.
    """

    num_others: int = 1
    num_runners: int = 1

    name = "players"

    @property
    def space(self) -> Box:  # type: ignore[override]  # a constant that depends on a field
        """The space of a reading."""
        largest = np.finfo(np.float32).max
        return Box(-largest, largest, (self.num_others, 3), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the readings [N, num_others, 3]."""
        worlds = shared_worlds(state, "Players()")
        size = worlds.num_agents
        if size != self.num_others + 1:
            raise ValueError(
                f"Players(num_others={self.num_others}) with agents_per_world={size}: pass num_others={size - 1}, or "
                f"num_agents={size} to the task that has this sensor"
            )
        others = np.array([[other for other in range(size) if other != own] for own in range(size)])
        position = worlds.state.position[:, :size]
        way = (position[:, others] - position[:, :, None]).reshape(-1, size - 1, 3)
        runs = np.arange(size) < self.num_runners
        team = np.where(runs[others] == runs[:, None], 1, -1)
        there = worlds.state.present[:, :size][:, others].reshape(-1, size - 1)
        out = np.empty((len(way), size - 1, 3), np.float32)
        out[..., 0], out[..., 1] = to_agent_frame(way, state.agents.heading[:, None])
        out[..., 2] = np.tile(team, (len(position), 1))
        out[~there] = 0
        return out


@dataclass(frozen=True, slots=True)
class PathToOthers(KeptMeasure):
    """Geodesic distance [N] float64 to the nearest agent of the other team, or without teams to the farthest agent.

    It is at most 30 m, also where there is no path, and 0 for agents that wait.

    Attributes:
        num_runners: The first agents of a world form one team, the rest the other one; 0 for a single team.
    """

    num_runners: int = 1

    name = "path_to_others"

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the distance and its change in the last step."""
        return {self.name: np.zeros(num_envs), "path_gained": np.zeros(num_envs)}

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Measure the distances in the worlds of agents ``indices`` [M]; ValueError if one has too few agents."""
        worlds = shared_worlds(state, "PathToOthers()")
        least = self.num_runners + 1 if self.num_runners else 2
        if worlds.least_agents < least:
            raise ValueError(
                f"a world may have fewer than {least} agents: pass agents_per_world=({least}, {worlds.num_agents})"
            )
        self.placed(state, indices)

    def placed(self, state: TaskState, indices: np.ndarray) -> None:
        """Measure the distances in the worlds of agents ``indices`` [M] that were moved."""
        size = shared_worlds(state, "PathToOthers()").num_agents
        chosen = np.isin(np.arange(state.num_envs // size), indices // size)
        rows = np.repeat(chosen, size)
        state.buffers[self.name][rows] = self._distances(state, state.agents.position, chosen)[rows]

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Measure the distances now."""
        before = self._before(state)
        now = self._distances(state, state.agents.position)
        state.buffers[self.name][:] = now
        state.buffers["path_gained"][:] = np.where(active, now - before, 0)

    def _before(self, state: TaskState) -> np.ndarray:
        """Return the distances [N] before the step to agents still present, so that a departure changes no reward."""
        worlds = shared_worlds(state, "PathToOthers()")
        before = state.buffers[self.name].copy()
        left: np.ndarray = np.any(~worlds.state.present[:, : worlds.num_agents], axis=1)
        if left.any():
            previous = np.ascontiguousarray(worlds.state.previous[:, : worlds.num_agents]).reshape(-1, 3)
            rows = np.repeat(left, worlds.num_agents)
            before[rows] = self._distances(state, previous, left)[rows]
        return before

    def _distances(self, state: TaskState, position: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Return the distances [N] between agents at positions [N, 3], in all worlds or those ``chosen`` [W] bool."""
        worlds = shared_worlds(state, "PathToOthers()")
        size = worlds.num_agents
        first, second = np.triu_indices(size, 1)
        if self.num_runners:
            across = (first < self.num_runners) != (second < self.num_runners)
            first, second = first[across], second[across]
        rows = np.arange(0, state.num_envs, size)[:, None]
        rows = rows if chosen is None else rows[chosen]
        one, other = (rows + first).ravel(), (rows + second).ravel()
        between = np.empty(len(one))
        for slot in np.unique(state.agents.slot):
            here = state.agents.slot[one] == slot
            navmesh = state.navmesh(int(slot))
            between[here] = navmesh.geodesic_distance(position[one[here]], position[other[here]], state.geodesic)
        between = np.minimum(between, FAR)
        there = worlds.state.present[:, :size].ravel()
        both = there[one] & there[other]
        out = np.full(state.num_envs, np.inf if self.num_runners else 0.0)
        combine = np.minimum if self.num_runners else np.maximum
        for rows_of in (one, other):
            combine.at(out, rows_of[both], between[both])
        return np.where(np.isfinite(out), out, 0.0)


@dataclass(frozen=True, slots=True)
class Caught(KeptMeasure):
    """Whether each runner [N] bool has been caught; for a chaser, whether all runners have.

    Attributes:
        num_runners: The first agents of a world.
        catch_distance: Metres between the discs of both.
    """

    num_runners: int = 1
    catch_distance: float = 0.15

    name = "caught"

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the result, and for the runners that were caught in the last step."""
        return {self.name: np.zeros(num_envs, bool), "catches": np.zeros(num_envs, np.int32)}

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Update which runners have been caught."""
        worlds = shared_worlds(state, "Caught()")
        size = worlds.num_agents
        gaps = worlds.gaps()[:, :size].reshape(-1, size, size)
        held = (gaps[:, : self.num_runners, self.num_runners :] <= self.catch_distance).any(axis=2)
        caught = state.buffers[self.name].reshape(-1, size)
        acted = active.reshape(-1, size)[:, : self.num_runners]
        new = np.logical_and(held, ~caught[:, : self.num_runners]) & acted
        caught[:, : self.num_runners] |= new
        caught[:, self.num_runners :] = caught[:, : self.num_runners].all(axis=1, keepdims=True)
        catches = state.buffers["catches"].reshape(-1, size)
        catches[:, : self.num_runners] = new
        catches[:, self.num_runners :] = new.sum(axis=1)[:, None]


@dataclass(frozen=True, slots=True)
class Met(Measure):
    """Whether all agents of each agent's world [N] bool are near each other; needs ``PathToOthers(0)``.

    Attributes:
        meet_distance: Geodesic metres between the centres of any two.
    """

    meet_distance: float = 1.0

    name = "met"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the results [N]."""
        size = shared_worlds(state, "Met()").num_agents
        farthest = state.buffers[PathToOthers.name].reshape(-1, size).max(axis=1)
        return np.repeat(farthest < self.meet_distance, size)


@dataclass(frozen=True, slots=True)
class Tag(Task):
    """Chasers catch runners, who flee. STOP does nothing.

    A runner that is caught leaves; when all are, the world's episode is terminated. If time runs out, runners have won.
    The reward of a chaser is its progress towards the nearest runner, ``chase_reward`` per metre, and ``catch_reward``
    for each runner that is caught. That of a runner is the opposite.

    Attributes:
        num_agents: M, the agents of a world.
        num_runners: The first agents of a world; the rest are chasers.
        catch_distance: Metres between the discs of both.
        catch_reward: See above.
        chase_reward: See above.
    """

    num_agents: int = 2
    num_runners: int = 1
    catch_distance: float = 0.15
    catch_reward: float = 5.0
    chase_reward: float = 0.2

    has_goal = False

    def __post_init__(self) -> None:
        check_counts(num_agents=self.num_agents, num_runners=self.num_runners)
        if self.num_runners >= self.num_agents:
            raise ValueError(
                f"num_runners={self.num_runners}: pass fewer than num_agents={self.num_agents}, so that someone chases"
            )
        check_length(catch_distance=self.catch_distance)
        check_finite(catch_reward=self.catch_reward, chase_reward=self.chase_reward)

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The sensor of the other agents."""
        return (Players(self.num_agents - 1, self.num_runners),)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``caught``, ``path_to_others``, ``path_length``, ``collisions_count``, ``body_collisions``."""
        return (
            Caught(self.num_runners, self.catch_distance),
            PathToOthers(self.num_runners),
            PathLength(),
            CollisionsCount(),
            BodyCollisions(),
        )

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        chase = -self.chase_reward * state.buffers["path_gained"] + self.catch_reward * state.buffers["catches"]
        is_runner = np.arange(state.num_envs) % self.num_agents < self.num_runners
        return np.where(is_runner, -chase, chase)

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the runners [N] bool that are caught, and the chasers that have caught all."""
        return measures["caught"]


@dataclass(frozen=True, slots=True)
class Rendezvous(Task):
    """The agents of a world find each other: it ends when all are within ``meet_distance``. STOP does nothing.

    The reward of a step is the progress towards the farthest of the others, and ``meet_reward`` when all have met.

    Attributes:
        num_agents: M, the agents of a world.
        meet_distance: Geodesic metres between the centres of any two.
        meet_reward: See above.
        step_reward: Reward of every step.
    """

    num_agents: int = 2
    meet_distance: float = 1.0
    meet_reward: float = 2.5
    step_reward: float = -0.01

    has_goal = False

    def __post_init__(self) -> None:
        check_counts(num_agents=self.num_agents)
        if self.num_agents < 2:
            raise ValueError(f"num_agents={self.num_agents}: pass 2 or more")
        check_length(meet_distance=self.meet_distance)
        check_finite(meet_reward=self.meet_reward, step_reward=self.step_reward)

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The sensor of the other agents."""
        return (Players(self.num_agents - 1, 0),)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``met``, ``path_to_others``, ``path_length``, ``collisions_count``, ``body_collisions``."""
        return (PathToOthers(0), Met(self.meet_distance), PathLength(), CollisionsCount(), BodyCollisions())

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        return self.step_reward - state.buffers["path_gained"] + self.meet_reward * measures["met"]

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return whether all agents [N] bool of a world have met."""
        return measures["met"]
