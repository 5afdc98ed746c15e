"""Protocols of a task, a sensor and a measure: subclass these to make your own.

A step of the batch goes as follows; every call is for all N environments at once.

1. The agents turn or move; ``EpisodeState`` counts steps, collisions and metres, and ``stopped`` says who called STOP.
2. ``update(state, actions, active)`` of the task, of every sensor and of every measure: the moment to write memory.
3. ``measure(state)`` of every measure without ``at_end``.
4. ``terminated(state, measures)`` of the task. The batch adds the limit of steps: an episode is truncated where it has
   taken ``max_episode_steps`` actions and is not terminated.
5. ``measure(state)`` of the measures with ``at_end``, if an episode has ended; elsewhere their values are 0.
6. ``reward(state, measures)`` of the task, with the values of all measures. Readings of sensors are in
   ``state.reading(name)``.
7. Where an episode begins, its rows of all memory are set to zero and ``begin(state, indices)`` is called: at a reset,
   and in the steps that the autoreset mode says. Infos then hold the measures of the new episode.
8. ``observe(state)`` of every sensor, as in a reset.

All methods read the state, whose arrays cannot be written, and write nothing but their memory, in ``update`` and
``begin``. A row of what they return depends on that row of what they read and on nothing else, so that a batch of N is
N batches of one. Objects keep nothing of a run in themselves, no generator of random numbers either: batches may
share them. Noise comes from ``state.uniform``; for what is drawn once where the episode of environment i begins,
``np.random.default_rng([state.episodes.seed[i], state.episodes.count[i]])`` will do.

A frozen dataclass is a good form, since components that are equal then count as one and run once. Returned arrays
are checked the first time: shape, dtype, and whether readings lie in their sensor's space. Rewards have to be finite in
every step.

A task goes into an environment as ``task=``, or gets an id of its own: ``gymnasium.register("Mine-v0",
entry_point="gym_batchnav.env.single:SingleEnv", vector_entry_point="gym_batchnav.env.batch_env:BatchNavEnv",
kwargs={"task": Mine()})``.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import gymnasium
import numpy as np

from gym_batchnav.episodes.draws import keyed_uniform
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.state import AgentState, EpisodeState, Memory


def _no_reading(name: str) -> np.ndarray:
    """Raise KeyError: there are no sensors."""
    raise KeyError(f"sensor {name!r}: this state has no sensors")


@dataclass(frozen=True, slots=True, eq=False)
class TaskState:
    """The present state of N environments, as tasks, sensors and measures read it.

    Attributes:
        agents: The pose of every agent, read-only.
        episodes: Every episode and its progress, read-only.
        memory: Arrays [N, ...] of all components, by name; see ``Component.memory``. Assigning to a name writes into
            its array, so that ``memory["x"] = values`` and ``memory["x"][:] = values`` do the same.
        navmesh: Gives the navmesh of the scene in a slot; ``agents.slot`` has the slots.
        max_episode_steps: The most actions of an episode.
        success_distance: The task's, in metres.
        reading: Gives the reading [N, ...] of a sensor, by name, read-only. It is computed once in a step however
            often it is asked for. In ``update`` a sensor with memory may still give that of the step before.
    """

    agents: AgentState
    episodes: EpisodeState
    memory: Memory
    navmesh: Callable[[int], NavMesh]
    max_episode_steps: int
    success_distance: float
    reading: Callable[[str], np.ndarray] = _no_reading

    @property
    def num_envs(self) -> int:
        """N."""
        return len(self.agents.slot)

    @property
    def timed_out(self) -> np.ndarray:
        """Whether each episode [N] bool has taken all actions that it may take."""
        return self.episodes.num_steps >= self.max_episode_steps

    def uniform(self, purpose: str, size: int) -> np.ndarray:
        """Return random numbers [N, size] float64 in [0, 1), for a sensor's noise.

        They are keyed by the episode, the step and the purpose and by nothing else: asked again in the same state, they
        are the same, and they differ for another purpose. An episode is keyed by the environment's seed and count, and
        where every episode runs once, by the seed of environment 0 and the episode's number, so that an evaluation with
        noise does not depend on the number of environments.
        """
        key = np.uint64(zlib.crc32(purpose.encode())) << np.uint64(32)
        step = self.episodes.num_steps[:, None].astype(np.uint64)
        draw = key + step * np.uint64(size) + np.arange(size, dtype=np.uint64)
        return keyed_uniform(self.episodes.noise[:, None], 0, draw)

    def by_scene(self) -> Iterator[tuple[NavMesh, np.ndarray]]:
        """Iterate over the scenes that agents are in: the navmesh, and the indices [M] of its agents.

        For questions to a navmesh, such as ``out[rows] = navmesh.distance_to_obstacle(state.agents.position[rows])``.
        """
        for slot in np.unique(self.agents.slot):
            yield self.navmesh(int(slot)), np.nonzero(self.agents.slot == slot)[0]


class Component(Protocol):
    """The common base of tasks, sensors and measures: memory of an episode, by default none."""

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return arrays [N, ...] of numbers or bools that remember an episode, by names that no other component has.

        Only their shapes and dtypes count: the batch makes arrays of zeros like them, which are in ``state.memory``,
        keeps them in ``get_state()`` and sets the rows of an episode that begins to zero. Called when
        the batch is made.
        """
        return {}

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Write the memory of the environments ``indices`` [M] int, in which an episode has begun, if zero will not do.

        The agents stand at their starts. The memory of other components may not be ready yet.
        """
        return None

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Write memory after a move; called once a step, before anything is measured.

        Args:
            state: After the move. The memory of other components may be that of the step before.
            actions: [N] int64.
            active: [N] bool, whether each environment acted. The others begin an episode in this step, or have none
                left to run.
        """
        return None


class Sensor(Component, Protocol):
    """A sensor that needs no camera.

    Attributes:
        name: Key of the observation; an identifier.
        space: Of one environment: a space with a shape and a dtype, such as Box or Discrete.
    """

    name: str
    space: gymnasium.Space

    @abstractmethod
    def observe(self, state: TaskState) -> np.ndarray:
        """Return readings [N, *space.shape] of the space's dtype. They are copied: views of the state will do."""


class Measure(Component, Protocol):
    """A number by which an episode is judged; infos report it.

    Attributes:
        name: Key of the infos; an identifier.
        at_end: Whether it is reported only where an episode ends, instead of at every step.
    """

    name: str
    at_end: bool = False

    @abstractmethod
    def measure(self, state: TaskState) -> np.ndarray:
        """Return values [N], numbers or bools. They are copied: views of the state will do."""


class Task(Component, Protocol):
    """A task: its sensors, its measures, its reward and the end of its episodes.

    Attributes:
        sensors: The task's sensors; more may be given to the environment.
        measures: Read by ``reward`` and ``terminated`` and reported in infos; more may be given to the environment.
        success_distance: How near to the goal, in geodesic metres, an agent has to stop: for the measures of success
            and for the shortest-path follower.
    """

    sensors: tuple[Sensor, ...] = ()
    measures: tuple[Measure, ...] = ()
    success_distance: float = 0.2

    @abstractmethod
    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] of the step; the batch sets it to 0 where no agent acted.

        Args:
            state: After the step.
            measures: Values [N] of the step by name, the task's own and those given to the environment; of those with
                ``at_end``, 0 where the episode continues.
        """

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Whether the agent's action ended each episode [N] bool: by default, where it called STOP.

        Args:
            state: After the step.
            measures: Values [N] of the measures without ``at_end``, by name.
        """
        return state.episodes.stopped
