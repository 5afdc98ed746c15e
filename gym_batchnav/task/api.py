"""Protocols of tasks, sensors and measures: subclass them to write your own.

A step of the batch makes the following calls, each for all N environments at once.

1. The agents turn or move. ``EpisodeState`` counts steps, collisions and metres; ``stopped`` marks calls of STOP.
2. ``update(state, actions, active)`` of the task, of every sensor and of every measure, which may write buffers.
3. ``measure(state)`` of every measure without ``at_end``.
4. ``terminated(state, measures)`` of the task. The batch adds the limit of steps: an episode is truncated where it has
   taken ``max_episode_steps`` actions and is not terminated.
5. ``measure(state)`` of the measures with ``at_end``, if an episode has ended; for other environments the value is 0.
6. ``reward(state, measures)`` of the task, with the values of all measures. Readings of sensors are in
   ``state.reading(name)``.
7. Where an episode begins, its rows of all buffers are set to zero and ``begin(state, indices)`` is called: at a reset,
   and in the steps that the autoreset mode defines. Infos then hold the measures of the new episode.
8. ``see(state, images, rows)`` of components that read ``images``, when these have been drawn; a reset calls it, too.
9. ``observe(state)`` of every sensor; a reset calls it, too.

All methods read the state, whose arrays are read-only, and write only their own buffers, in ``update``, ``begin``,
``see`` and ``placed``, which follows a ``set_pose``.
Each row of a returned array must depend only on that row of the state, so that a batch of N equals N batches of one. If
agents share worlds (``agents_per_world=``), it may depend on all rows of its world; see ``state.worlds``.
Batches may share components, so a component must not store anything about a run in itself, not even a random generator.
Take noise from ``state.uniform``. For values drawn once per episode, at the start of the episode of environment i, use
``np.random.default_rng([state.episodes.seed[i], state.episodes.count[i]])``.

Write components as frozen dataclasses: equal components then count as one and run once. The first arrays that a
component returns are checked: shape, dtype, and whether readings lie in the sensor's space. Rewards must be finite at
every step.

Pass a task to an environment as ``task=``, or register your own id: ``gymnasium.register("Mine-v0",
entry_point="gym_batchnav.env.single:SingleEnv", vector_entry_point="gym_batchnav.env.batch:BatchNavEnv",
max_episode_steps=500, kwargs={"task": Mine()})``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import gymnasium
import numpy as np

from gym_batchnav.episodes.draws import step_uniform
from gym_batchnav.episodes.samplers import EpisodeSampler, PointEpisodes
from gym_batchnav.geometry import Camera, CameraPlaces
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.state import AgentState, Buffers, EpisodeState, WorldView


def _no_reading(name: str) -> np.ndarray:
    """Raise KeyError, because this state has no sensors."""
    raise KeyError(f"sensor {name!r}: this state was made without readings: pass reading= to TaskState")


class Pictures(Protocol):
    """Draws pictures from places in the agents' scenes."""

    def __call__(
        self,
        slots: np.ndarray,
        position: np.ndarray,
        heading: np.ndarray,
        camera: Camera,
        targets: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return RGB pictures [M, H, W, 3] uint8 of a camera on agents that stand on the visible floor.

        Args:
            slots: [M] int, the slots of the scenes.
            position: [M, 3], metres, on the navmesh.
            heading: [M], radians, of the agents; the camera is placed on them as its fields say.
            camera: The camera; its jitter is not used.
            targets: [M, 3], metres, points to look at instead, upright and from right above the position, whatever the
                camera's angles and offset.
        """


def _no_pictures(
    slots: np.ndarray, position: np.ndarray, heading: np.ndarray, camera: Camera, targets: np.ndarray | None = None
) -> np.ndarray:
    """Raise RuntimeError, because this state has no renderer."""
    raise RuntimeError("this state was made without an environment's renderer: pass pictures= to TaskState")


@dataclass(frozen=True, slots=True, eq=False)
class TaskState:
    """The current state of N environments, as read by tasks, sensors and measures.

    Attributes:
        agents: The pose of every agent, read-only.
        episodes: Every episode and its progress, read-only.
        buffers: Arrays [N, ...] of all components, by name; see ``Component.buffers``. Assigning to a name writes into
            its array, so that ``buffers["x"] = values`` and ``buffers["x"][:] = values`` do the same.
        navmesh: Returns the navmesh of the scene in a slot; ``agents.slot`` has the slots.
        max_episode_steps: Maximum number of actions in an episode.
        success_distance: The task's success distance, metres.
        reading: Returns the reading [N, ...] of a sensor, by name, read-only. It is kept until the state changes. In
            ``update``, the reading of a sensor with buffers may still be that of the previous step.
        pictures: Draws pictures from other places than the agents', such as the goals; see ``Pictures``. Call it in
            ``begin``, and keep the result in buffers.
        geodesic: The method that measures distances, for methods of navmeshes such as ``geodesic_distance``.
        worlds: The other agents and bodies of every agent's world, read-only; None if each agent is alone.
    """

    agents: AgentState
    episodes: EpisodeState
    buffers: Buffers
    navmesh: Callable[[int], NavMesh]
    max_episode_steps: int
    success_distance: float
    reading: Callable[[str], np.ndarray] = _no_reading
    pictures: Pictures = _no_pictures
    geodesic: str = "exact"
    worlds: WorldView | None = None

    @property
    def num_envs(self) -> int:
        """N."""
        return len(self.agents.slot)

    @property
    def timed_out(self) -> np.ndarray:
        """Whether each episode [N] bool has reached ``max_episode_steps``."""
        return self.episodes.num_steps >= self.max_episode_steps

    def uniform(self, purpose: str, size: int) -> np.ndarray:
        """Return random numbers [N, size] float64 in [0, 1), for a sensor's noise.

        They are keyed by the episode, the step and the purpose only: repeated calls in the same state return the same
        numbers, and another purpose returns different ones. An episode is keyed by the environment's seed and count. If
        every episode runs once, it is keyed by the seed of environment 0, the scene's name and the episode's row there,
        so that an evaluation with noise does not depend on the number of environments.
        """
        return step_uniform(self.episodes.key, self.episodes.num_steps, purpose, size)

    def by_scene(self) -> Iterator[tuple[NavMesh, np.ndarray]]:
        """Iterate over the scenes that agents are in: yield each navmesh with the indices [M] of its agents.

        Use it for queries of navmeshes: ``out[rows] = navmesh.distance_to_obstacle(state.agents.position[rows])``.
        """
        for slot in np.unique(self.agents.slot):
            yield self.navmesh(int(slot)), np.nonzero(self.agents.slot == slot)[0]


class Image(NamedTuple):
    """Images of one camera's sensor, as agents observe them."""

    pixels: np.ndarray  # [M, H, W, channels], as in the observation, with noise; read-only by agreement
    camera: Camera
    places: CameraPlaces | None = None  # its height, pitch and yaw on each of the M agents if it has jitter


class Component(Protocol):
    """Common base of tasks, sensors and measures, with buffers during an episode (by default none).

    Attributes:
        images: Keys of the images in the observation that ``see`` reads, such as ``"depth"``; by default none.
        picture_cameras: The cameras that it passes to ``state.pictures``; by default none. The batch chooses a renderer
            that can draw them.
    """

    images: tuple[str, ...] = ()
    picture_cameras: tuple[Camera, ...] = ()

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return arrays [N, ...] of numbers or bools for use during an episode, under unique names.

        Only shapes and dtypes matter. The batch allocates zeros like them in ``state.buffers``, includes them in
        ``get_state()``, and zeroes the row of an environment when it begins an episode. Called only while the batch is
        made.
        """
        return {}

    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError if buffers have values from which this component cannot continue; by default, accept any.

        Called with restored buffers, such as those of ``set_state`` or a log, before they are used. Their shapes and
        dtypes are right. Check what serves as an index and what compiled code reads, because files may be damaged.
        """
        return None

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Initialise the buffers of the environments ``indices`` [M] int, in which an episode begins, if not to zero.

        The agents are at their starts. The buffers of other components may not be initialised yet.
        """
        return None

    def placed(self, state: TaskState, indices: np.ndarray) -> None:
        """Update buffers after ``set_pose`` has moved agents ``indices`` [M] int, which is not a motion of theirs."""
        return None

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Update buffers after a move; called once per step, before any measure.

        Args:
            state: State after the move. The buffers of other components may be those of the previous step.
            actions: [N] int64, or [N, D] float32 in a continuous action space.
            active: [N] bool, whether each environment acted. The others begin an episode in this step, are paused, or
                have no episode left to run.
        """
        return None

    def see(self, state: TaskState, images: Mapping[str, Image], rows: np.ndarray) -> None:
        """Update buffers with images of the agents ``rows`` [M] int, at their poses in the state.

        Called once per step and after resets; also for agents whose episode ends, with its last images, before the next
        one begins. It may be called again with the same images, which must not change anything.

        Args:
            state: The current state.
            images: Those named in ``images``, by key.
            rows: [M] int, the agents.
        """
        return None


class Sensor(Component, Protocol):
    """A sensor that needs no camera.

    Attributes:
        name: Key of the observation; an identifier.
        space: Space of one environment's reading, with a shape and a dtype, such as Box or Discrete.
    """

    name: str
    space: gymnasium.Space

    def for_actions(self, space: gymnasium.Space) -> Sensor:
        """Return the sensor for agents whose actions are in a space; by default the sensor itself."""
        return self

    @abstractmethod
    def observe(self, state: TaskState) -> np.ndarray:
        """Return readings [N, *space.shape] of the space's dtype. They are copied, so you may return views."""


class Measure(Component, Protocol):
    """A number per environment that infos report, such as success or path length.

    Attributes:
        name: Key of the infos; an identifier.
        at_end: Whether it is reported only when an episode ends, instead of at every step.
    """

    name: str
    at_end: bool = False

    @abstractmethod
    def measure(self, state: TaskState) -> np.ndarray:
        """Return values [N], numbers or bools. They are copied, so you may return views."""


class Task(Component, Protocol):
    """A task: its sensors, its measures, its reward and the end of its episodes.

    Attributes:
        sensors: The task's sensors; ``sensors=`` of the environment adds more.
        measures: Read by ``reward`` and ``terminated`` and reported in infos; ``measures=`` of the environment adds
            more.
        success_distance: Geodesic distance to the goal, metres, within which STOP counts as success; used by the
            measures of success, by tours of several goals, and by the shortest-path follower.
        sampler: The kind of episodes. The default samples PointNav's for scenes that come without any; others replace
            those that come with a scene. See ``gym_batchnav.episodes.samplers.EpisodeSampler`` for how to write your
            own, which reads no file.
        has_goal: Whether agents are to go to the goals of their episodes, as the shortest-path follower does.
    """

    sensors: tuple[Sensor, ...] = ()
    measures: tuple[Measure, ...] = ()
    success_distance: float = 0.2
    sampler: EpisodeSampler = PointEpisodes()
    has_goal: bool = True

    @abstractmethod
    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] of the step; the batch sets it to 0 where no agent acted.

        Args:
            state: State after the step.
            measures: Values [N] by name, of the task's measures and those passed to the environment. Measures with
                ``at_end`` are 0 where the episode continues.
        """

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return whether the agent's action ended each episode [N] bool; by default, whether it called STOP.

        Args:
            state: State after the step.
            measures: Values [N] of the measures without ``at_end``, by name.
        """
        return state.episodes.stopped
