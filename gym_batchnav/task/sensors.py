"""Sensors that need no camera, by Habitat's definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.vector.utils import batch_space

from gym_batchnav.geometry import polar_goals, to_agent_frame, wrap_angle
from gym_batchnav.state import NUM_ACTIONS, STATE_REMEDY
from gym_batchnav.system.numbers import check_counts, check_length
from gym_batchnav.task.api import Sensor, TaskState

_ANY = np.finfo(np.float32).max


@dataclass(frozen=True, slots=True)
class PointGoal(Sensor):
    """The goal in polar coordinates [2] float32: metres, and radians from straight ahead, left positive."""

    name = "pointgoal_with_gps_compass"
    space = Box(np.array([0, -np.pi], np.float32), np.array([_ANY, np.pi], np.float32), dtype=np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the goals [N, 2]."""
        return polar_goals(state.agents.position, state.agents.heading, state.episodes.goal)


@dataclass(frozen=True, slots=True)
class StaticPointGoal(Sensor):
    """The goal in polar coordinates as seen from the start [2] float32, the same throughout an episode.

    The metres and radians are those of ``PointGoal`` when the episode began. Agents without GPS and compass have to
    keep track of their own motion.
    """

    name = "pointgoal"
    space = PointGoal.space

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the goals [N, 2]."""
        return polar_goals(state.episodes.start, state.episodes.start_heading, state.episodes.goal)


@dataclass(frozen=True, slots=True)
class GPS(Sensor):
    """The agent's position relative to its start [2] float32: metres ahead and metres to the right."""

    name = "gps"
    space = Box(-_ANY, _ANY, (2,), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the positions [N, 2]."""
        offset = state.agents.position - state.episodes.start
        return np.stack(to_agent_frame(offset, state.episodes.start_heading), axis=-1)


@dataclass(frozen=True, slots=True)
class Compass(Sensor):
    """The agent's rotation since its start [1] float32: radians from -pi to pi, left positive."""

    name = "compass"
    space = Box(-np.pi, np.pi, (1,), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the angles [N, 1]."""
        turned = state.agents.heading.astype(np.float64) - state.episodes.start_heading
        return wrap_angle(turned).astype(np.float32)[:, None]


@dataclass(frozen=True, slots=True)
class Heading(Sensor):
    """The agent's heading [1] float32: radians from -pi to pi, 0 along -z, left positive."""

    name = "heading"
    space = Box(-np.pi, np.pi, (1,), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the angles [N, 1]."""
        return state.agents.heading[:, None]


@dataclass(frozen=True, slots=True)
class WalkScan(Sensor):
    """The distances that the agent can walk in directions all around [num_directions] float32, metres.

    It is an ideal range finder on the navmesh, which needs no camera; other agents and bodies do not appear in it. The
    first direction is ahead, the others follow to the left.

    Attributes:
        num_directions: Number of directions, at equal angles.
        reach: Metres at which a reading ends.
    """

    num_directions: int = 16
    reach: float = 4.0

    name = "walk_scan"

    def __post_init__(self) -> None:
        check_counts(num_directions=self.num_directions)
        check_length(reach=self.reach)

    @property
    def space(self) -> Box:  # type: ignore[override]  # a constant that depends on a field
        """The space of a reading."""
        return Box(0, self.reach, (self.num_directions,), np.float32)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the distances [N, num_directions]."""
        around = np.arange(self.num_directions) * (2 * np.pi / self.num_directions)
        out = np.empty((state.num_envs, self.num_directions), np.float32)
        for navmesh, rows in state.by_scene():
            headings = state.agents.heading[rows].astype(np.float64)[:, None] + around
            out[rows] = navmesh.sight_distance(state.agents.position[rows], headings, self.reach)
        return out


@dataclass(frozen=True, slots=True)
class PreviousAction(Sensor):
    """The agent's last action.

    For discrete actions, this is the number of the action plus 1, int64, and 0 where an episode begins. For continuous
    ones, it is the action itself [D] float32, and zeros where an episode begins.

    Attributes:
        space: The space of the readings; the environment sets it according to its actions.
    """

    space: Space = field(default_factory=lambda: Discrete(1 + NUM_ACTIONS), repr=False, hash=False)

    name = "previous_action"

    def for_actions(self, space: Space) -> PreviousAction:
        """Return the sensor for actions in a space."""
        return PreviousAction(Discrete(1 + int(space.n)) if isinstance(space, Discrete) else space)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the reading, which is 0 when an episode begins."""
        return {self.name: np.zeros((num_envs, *(self.space.shape or ())), self.space.dtype)}

    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless the readings are in the space."""
        if not batch_space(self.space, len(buffers[self.name])).contains(buffers[self.name]):
            raise ValueError(f"state array {self.name!r} has readings outside {self.space}: {STATE_REMEDY}")

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Store the actions."""
        offset = 1 if isinstance(self.space, Discrete) else 0
        state.buffers[self.name][active] = actions[active] + offset

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the actions [N] or [N, D]."""
        return state.buffers[self.name]
