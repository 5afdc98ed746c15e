"""What a task, a sensor and a measure are: subclass these to make your own.

A step of the batch goes as follows; every call is for all N environments at once.

1. The agents turn or move; ``EpisodeState`` counts steps, collisions and metres, and ``stopped`` says who called STOP.
2. ``update(state, actions, active)`` of the task, of every sensor and of every measure: the moment to write memory.
3. ``measure(state)`` of every measure; those with ``at_end`` are asked only when they are read.
4. ``reward(state, measures)`` and ``terminated(state, measures)`` of the task. The batch adds the limit of steps: an
   episode is truncated where it has taken ``max_episode_steps`` actions and is not terminated.
5. Where an episode begins, its rows of all memory are set to zero and ``begin(state, indices)`` is called: at a reset,
   and in the steps that the autoreset mode says. Infos then hold the measures of the new episode.
6. ``observe(state)`` of every sensor, as in a reset.

All methods read the state, whose arrays cannot be written, and write nothing but their memory, in ``update`` and
``begin``. A row of what they return depends on that row of what they read and on nothing else, so that a batch of N is
N batches of one. Objects keep nothing of a run in themselves, no generator of random numbers either: batches may
share them. Noise comes from ``state.uniform``; for what is drawn once where the episode of environment i begins,
``np.random.default_rng([state.episodes.seed[i], state.episodes.count[i]])`` will do.

A frozen dataclass is a good form, since components that are equal then count as one and run once. What methods return
is checked the first time: shape, dtype, and whether readings lie in their sensor's space. Rewards have to be finite in
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


@dataclass(frozen=True, slots=True, eq=False)
class TaskState:
    """What tasks, sensors and measures read: the present state of N environments.

    Attributes:
        agents: Where every agent stands, read-only.
        episodes: What every episode is and what has come of it, read-only.
        memory: Arrays [N, ...] of all components, by name; see ``Component.memory``. Assigning to a name writes into
            its array, so that ``memory["x"] = values`` and ``memory["x"][:] = values`` do the same.
        navmesh: Gives the navmesh of the scene in a slot; ``agents.slot`` has the slots.
        max_episode_steps: How many actions an episode may take.
        success_distance: The task's, in metres.
    """

    agents: AgentState
    episodes: EpisodeState
    memory: Memory
    navmesh: Callable[[int], NavMesh]
    max_episode_steps: int
    success_distance: float

    @property
    def num_envs(self) -> int:
        """N."""
        return len(self.agents.slot)

    @property
    def timed_out(self) -> np.ndarray:
        """Whether each episode [N] bool has taken all actions that it may take."""
        return self.episodes.num_steps >= self.max_episode_steps

    def uniform(self, purpose: str, size: int) -> np.ndarray:
        """Random numbers [N, size] float64 in [0, 1), such as a sensor's noise is made of.

        They depend on the seed of the environment, its episode, its step and the purpose, and on nothing else: asked
        again in the same state, they are the same, and they are others for another purpose.
        """
        key = np.uint64(zlib.crc32(purpose.encode())) << np.uint64(32)
        step = self.episodes.num_steps[:, None].astype(np.uint64)
        draw = key + step * np.uint64(size) + np.arange(size, dtype=np.uint64)
        return keyed_uniform(self.episodes.seed[:, None], self.episodes.count[:, None], draw)

    def by_scene(self) -> Iterator[tuple[NavMesh, np.ndarray]]:
        """The navmesh of every scene that agents are in, and the indices [M] of those agents.

        For questions to a navmesh, such as ``out[rows] = navmesh.distance_to_obstacle(state.agents.position[rows])``.
        """
        for slot in np.unique(self.agents.slot):
            yield self.navmesh(int(slot)), np.nonzero(self.agents.slot == slot)[0]


class Component(Protocol):
    """What tasks, sensors and measures have in common: memory of an episode. By default there is none."""

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """Arrays of numbers or truth values [N, ...] to remember an episode in, by names that no other component has.

        Only their shapes and dtypes count: the batch makes arrays of zeros like them, which are in ``state.memory``,
        keeps them in ``get_state()`` and sets the rows of an episode that begins to zero. Called once,
        when the batch is made.
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
            actions: [N] int64, what was asked.
            active: [N] bool, who acted. The others begin an episode in this step, or have none left to run.
        """
        return None


class Sensor(Component, Protocol):
    """What an agent perceives, beside the pictures of its camera.

    Attributes:
        name: Key of the observation; an identifier.
        space: Of one environment: a space with a shape and a dtype, such as Box or Discrete.
    """

    name: str
    space: gymnasium.Space

    @abstractmethod
    def observe(self, state: TaskState) -> np.ndarray:
        """Readings [N, *space.shape] of the space's dtype. They are copied: views of the state will do."""


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
        """Values [N], numbers or truth values. They are copied: views of the state will do."""


class Task(Component, Protocol):
    """What is asked of an agent: what it perceives, how it is judged and rewarded, and when its episode is over.

    Attributes:
        sensors: What agents perceive in this task; more may be given to the environment.
        measures: What ``reward`` and ``terminated`` read and infos report; more may be given to the environment.
        success_distance: How near to the goal, in geodesic metres, an agent has to stop: for the measures of success
            and for the shortest-path follower.
    """

    sensors: tuple[Sensor, ...] = ()
    measures: tuple[Measure, ...] = ()
    success_distance: float = 0.2

    @abstractmethod
    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Reward [N] of the step; it is 0 where nobody acted, whatever this says.

        Args:
            state: After the step.
            measures: Values [N] of the step by name, the task's own and those given to the environment.
        """

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Whether each episode [N] bool is over, by what the agent did: by default, where it called STOP."""
        return state.episodes.stopped
