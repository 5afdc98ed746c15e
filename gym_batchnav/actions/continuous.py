"""Continuous actions: velocities, waypoints and holonomic moves, each a Box of numbers from -1 to 1."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.actions.api import MAX_PITCH, Actions, validate_box
from gym_batchnav.geometry import wrap_angle
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import AgentState, Commands
from gym_batchnav.system.numbers import check_between, check_flags, check_not_negative, check_positive, check_range

LONGEST_PART = 0.25  # metres: Habitat's step; longer walks are done in parts, so that they cannot jump over a wall
MARGIN = 1.05  # factor by which the follower keeps above the thresholds of STOP


class Course(NamedTuple):
    """The next straight walk on the shortest path of every agent."""

    arrived: np.ndarray  # [N] bool, whether to call STOP: at the goal, or without a path to it
    turn: np.ndarray  # [N] float64, radians from the heading to the walk's direction, left positive, -pi to pi
    length: np.ndarray  # [N] float64, metres


class _BoxActions(Actions):
    """Actions whose components lie between -1 and 1."""

    stop_component: bool

    @property
    @abstractmethod
    def components(self) -> tuple[str, ...]:
        """The names of an action's components."""

    @property
    def space(self) -> Box:
        """Gymnasium's space of one agent's action."""
        return Box(-1.0, 1.0, (len(self.components),), np.float32)

    def validate(self, actions: Any, num_agents: int) -> np.ndarray:
        """Return actions as float32 [N, D]; ValueError for another shape, dtype or value."""
        return validate_box(actions, num_agents, self.components)

    def _check_thresholds(self, **greatest: float) -> None:
        """Raise ValueError unless agents can move and call STOP; ``greatest`` are the motions by name of threshold."""
        check_flags(stop_component=self.stop_component)
        check_not_negative(**{name: getattr(self, name) for name in greatest})
        if self.stop_component:
            return
        for name, most in greatest.items():
            threshold = getattr(self, name)
            if not 0 < MARGIN * threshold <= most:
                raise ValueError(
                    f"{name}={threshold!r}: motions below it mean STOP, and the largest motion is {most:g}: pass a "
                    f"positive number below {most / MARGIN:g}, or stop_component=True"
                )

    def _commands(
        self, stop: np.ndarray, turn: np.ndarray, forward: np.ndarray, side: np.ndarray | None = None, **others: Any
    ) -> Commands:
        """Return commands in which agents that ``stop`` [N] bool do not move; see ``Commands``."""
        zero = np.zeros(len(stop))
        side = zero if side is None else np.where(stop, 0.0, side)
        motion = (np.where(stop, 0.0, turn), np.where(stop, 0.0, forward), side)
        return Commands(*motion, stop, longest_part=LONGEST_PART, **others)

    def _stop(self, actions: np.ndarray, stands: np.ndarray) -> np.ndarray:
        """Return whether each agent calls STOP [N] bool; ``stands`` [N] bool: its motion is below the thresholds."""
        return actions[:, -1] > 0 if self.stop_component else stands

    def _join(self, arrived: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        """Return the follower's actions [N, D] from its columns [N], with a last one for STOP if there is one."""
        if self.stop_component:
            columns = (*columns, np.where(arrived, 1.0, -1.0))
        return np.clip(np.stack(columns, axis=1), -1, 1).astype(np.float32)


@dataclass(frozen=True, slots=True)
class VelocityActions(_BoxActions):
    """A linear and an angular velocity, kept for ``time_step`` seconds: Habitat's velocity control.

    The components are ``linear`` (forward), ``angular`` (left), with a look range ``look`` (up), and with
    ``stop_component`` ``stop``. Each of them but ``stop`` is mapped from [-1, 1] to its range.

    The agent drives along the exact arc of these velocities, as chords that turn by at most 10 degrees and are at most
    0.25 m long. (Habitat moves it straight along its old heading and turns it afterwards.) The defaults are Habitat's.

    Attributes:
        linear_range: Least and greatest velocity forward, metres per second.
        angular_range_deg: Least and greatest velocity to the left, degrees per second.
        time_step: Duration of a step, seconds.
        min_linear: STOP is called where the linear speed is below this, metres per second, and the angular speed below
            ``min_angular_deg``.
        min_angular_deg: See ``min_linear``; degrees per second.
        look_range_deg: Least and greatest velocity of the cameras' pitch, degrees per second; None for cameras that do
            not tilt. The pitch stays within 90 degrees up and down.
        stop_component: Call STOP where a further component is positive, instead of at low speeds.

    Raises:
        ValueError: A value is out of its range.
    """

    linear_range: tuple[float, float] = (0.0, 0.25)
    angular_range_deg: tuple[float, float] = (-10.0, 10.0)
    time_step: float = 1.0
    min_linear: float = 0.025
    min_angular_deg: float = 1.0
    look_range_deg: tuple[float, float] | None = None
    stop_component: bool = False

    def __post_init__(self) -> None:
        check_positive(time_step=self.time_step)
        check_range("linear_range", self.linear_range, 10.0)
        check_range("angular_range_deg", self.angular_range_deg, 3600.0)
        if self.look_range_deg is not None:
            check_range("look_range_deg", self.look_range_deg, 3600.0)
        if self.linear_range[1] <= 0:
            raise ValueError(f"linear_range={self.linear_range}: the maximum must be positive")
        if self.time_step > 60:
            raise ValueError(f"time_step={self.time_step}: pass at most 60 seconds")
        fastest_turn = max(map(abs, self.angular_range_deg))
        self._check_thresholds(min_linear=self.linear_range[1], min_angular_deg=fastest_turn)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of an action's components."""
        look = () if self.look_range_deg is None else ("look",)
        stop = ("stop",) if self.stop_component else ()
        return ("linear", "angular", *look, *stop)

    def decode(self, actions: np.ndarray) -> Commands:
        """Return the motion that actions [N, D] float32 command."""
        linear = _spread(actions[:, 0], self.linear_range)
        angular = _spread(actions[:, 1], self.angular_range_deg)
        stop = self._stop(actions, (np.abs(linear) < self.min_linear) & (np.abs(angular) < self.min_angular_deg))
        look = None
        if self.look_range_deg is not None:
            look = np.radians(_spread(actions[:, 2], self.look_range_deg)) * self.time_step
            look = np.where(stop, 0.0, np.clip(look, -2 * MAX_PITCH, 2 * MAX_PITCH))
        turn = np.radians(angular) * self.time_step
        return self._commands(stop, turn, linear * self.time_step, look=look, is_arc=True)

    def follow(
        self, navmeshes: NavMeshAgents, agents: AgentState, goal_index: np.ndarray, goal_radius: float, sliding: bool
    ) -> np.ndarray:
        """Return the actions [N, D] float32 of the greedy follower: it turns on the spot, then drives straight."""
        longest = self.linear_range[1] * self.time_step
        course = _course(navmeshes, agents, goal_index, goal_radius, sliding, longest)
        low, high = np.radians(self.angular_range_deg) * self.time_step
        # A smaller turn on the spot could be taken for STOP, so the agent turns while it drives.
        is_ahead = np.abs(course.turn) <= max(MARGIN * np.radians(self.min_angular_deg) * self.time_step, 1e-3)
        least = 0.0 if self.stop_component else np.radians(self.min_angular_deg) * self.time_step
        around = np.where(course.turn < 0, 2 * np.pi, -2 * np.pi)  # for agents that can turn in one direction only
        is_impossible = (course.turn < 0) & (-low <= least) | (course.turn > 0) & (high <= least)
        turn = np.where(is_impossible & ~is_ahead, course.turn + around, course.turn)
        length = np.maximum(course.length, MARGIN * self.min_linear * self.time_step)
        linear = np.where(is_ahead & ~course.arrived, length / self.time_step, 0.0)
        angular = np.where(course.arrived, 0.0, np.degrees(np.clip(turn, low, high)) / self.time_step)
        columns = [_unit(linear, self.linear_range), _unit(angular, self.angular_range_deg)]
        if self.look_range_deg is not None:
            columns.append(_unit(np.zeros_like(linear), self.look_range_deg))
        return self._join(course.arrived, *columns)


@dataclass(frozen=True, slots=True)
class WaypointActions(_BoxActions):
    """A point in polar coordinates to which the agent turns and walks along a straight line.

    The components are ``distance``, mapped from [-1, 1] to [0, max_distance], ``angle`` (left), mapped to
    [-max_angle_deg, max_angle_deg], and with ``stop_component`` ``stop``. The agent turns by the angle and then walks
    the distance straight ahead; a wall stops it, or with ``sliding`` it slides along.

    Attributes:
        max_distance: Metres to the farthest waypoint.
        max_angle_deg: Greatest angle to either side, degrees, at most 180.
        min_distance: STOP is called where the distance is below this, metres, and the angle below ``min_angle_deg``.
        min_angle_deg: See ``min_distance``; degrees.
        stop_component: Call STOP where a further component is positive, instead of at small motions.

    Raises:
        ValueError: A value is out of its range.
    """

    max_distance: float = 2.0
    max_angle_deg: float = 180.0
    min_distance: float = 0.1
    min_angle_deg: float = 9.0
    stop_component: bool = False

    def __post_init__(self) -> None:
        check_positive(max_distance=self.max_distance, max_angle_deg=self.max_angle_deg)
        check_between(0.0, 1000.0, max_distance=self.max_distance)
        check_between(0.0, 180.0, max_angle_deg=self.max_angle_deg)
        self._check_thresholds(min_distance=self.max_distance, min_angle_deg=self.max_angle_deg)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of an action's components."""
        return ("distance", "angle", "stop") if self.stop_component else ("distance", "angle")

    def decode(self, actions: np.ndarray) -> Commands:
        """Return the motion that actions [N, D] float32 command."""
        distance = _spread(actions[:, 0], (0.0, self.max_distance))
        angle = _spread(actions[:, 1], (-self.max_angle_deg, self.max_angle_deg))
        stop = self._stop(actions, (distance < self.min_distance) & (np.abs(angle) < self.min_angle_deg))
        return self._commands(stop, np.radians(angle), distance)

    def follow(
        self, navmeshes: NavMeshAgents, agents: AgentState, goal_index: np.ndarray, goal_radius: float, sliding: bool
    ) -> np.ndarray:
        """Return the actions [N, D] float32 of the greedy follower, whose waypoints are the corners of the path."""
        course = _course(navmeshes, agents, goal_index, goal_radius, sliding, self.max_distance)
        most = np.radians(self.max_angle_deg)
        is_ahead = np.abs(course.turn) <= most
        turns = np.abs(course.turn) >= MARGIN * np.radians(self.min_angle_deg)
        length = np.where(turns, course.length, np.maximum(course.length, MARGIN * self.min_distance))
        distance = np.where(is_ahead & ~course.arrived, length, 0.0)
        angle = np.where(course.arrived, 0.0, np.degrees(np.clip(course.turn, -most, most)))
        columns = (_unit(distance, (0.0, self.max_distance)), _unit(angle, (-self.max_angle_deg, self.max_angle_deg)))
        return self._join(course.arrived, *columns)


@dataclass(frozen=True, slots=True)
class HolonomicActions(_BoxActions):
    """A walk in any direction while turning, for bases with omnidirectional wheels and for legged robots.

    The components are ``forward``, ``side`` (right), ``turn`` (left), and with ``stop_component`` ``stop``. The first
    three are mapped from [-1, 1] to [-max, max]. The agent walks and turns at the same time, at constant speeds.

    Attributes:
        max_forward: Metres per step.
        max_side: Metres per step.
        max_turn_deg: Degrees per step.
        min_move: STOP is called where the agent would move by less than this, metres, and turn by less than
            ``min_turn_deg``.
        min_turn_deg: See ``min_move``; degrees.
        stop_component: Call STOP where a further component is positive, instead of at small motions.

    Raises:
        ValueError: A value is out of its range.
    """

    max_forward: float = 0.25
    max_side: float = 0.25
    max_turn_deg: float = 10.0
    min_move: float = 0.025
    min_turn_deg: float = 1.0
    stop_component: bool = False

    def __post_init__(self) -> None:
        check_positive(max_forward=self.max_forward, max_side=self.max_side, max_turn_deg=self.max_turn_deg)
        check_between(0.0, 1000.0, max_forward=self.max_forward, max_side=self.max_side)
        check_between(0.0, 3600.0, max_turn_deg=self.max_turn_deg)
        self._check_thresholds(min_move=self.max_forward, min_turn_deg=self.max_turn_deg)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of an action's components."""
        return ("forward", "side", "turn", "stop") if self.stop_component else ("forward", "side", "turn")

    def decode(self, actions: np.ndarray) -> Commands:
        """Return the motion that actions [N, D] float32 command."""
        scale = np.array([self.max_forward, self.max_side, np.radians(self.max_turn_deg)])
        forward, side, turn = (actions[:, :3] * scale).T
        is_small = (np.hypot(forward, side) < self.min_move) & (np.abs(turn) < np.radians(self.min_turn_deg))
        stop = self._stop(actions, is_small)
        return self._commands(stop, turn, forward, side, is_arc=True)

    def follow(
        self, navmeshes: NavMeshAgents, agents: AgentState, goal_index: np.ndarray, goal_radius: float, sliding: bool
    ) -> np.ndarray:
        """Return the actions [N, D] float32 of the greedy follower.

        It walks along the path in any direction, and meanwhile turns to face it.
        """
        longest = max(self.max_forward, self.max_side)
        course = _course(navmeshes, agents, goal_index, goal_radius, sliding, longest)
        most = min(np.radians(self.max_turn_deg), np.pi / 18)  # a greater turn would make the path bend noticeably
        turn = np.where(course.arrived, 0.0, np.clip(course.turn, -most, most))
        half = 0.5 * turn
        # The chord of the arc shall have the course's direction and length.
        direction = course.turn - half
        length = np.maximum(course.length, MARGIN * self.min_move) / np.sinc(half / np.pi)
        length = np.where(course.arrived, 0.0, length)
        ahead = np.cos(direction)
        right = -np.sin(direction)
        fits = _share(self.max_forward, length * ahead)
        # Where the turn is too small to differ from STOP, the agent must not slow down for a side that it cannot reach.
        turns = self.stop_component | (np.abs(course.turn) >= MARGIN * np.radians(self.min_turn_deg))
        fits = np.where(turns, np.minimum(fits, _share(self.max_side, length * right)), fits)
        forward = fits * length * ahead / self.max_forward
        side = fits * length * right / self.max_side
        return self._join(course.arrived, forward, side, turn / np.radians(self.max_turn_deg))


def _course(
    navmeshes: NavMeshAgents,
    agents: AgentState,
    goal_index: np.ndarray,
    goal_radius: float,
    sliding: bool,
    longest: float,
) -> Course:
    """Return the next straight walks, of at most ``longest`` metres, on the agents' shortest paths."""
    distance, direction, length = navmeshes.next_walk(
        agents.slot, agents.polygon, agents.position, goal_index, longest=longest, sliding=sliding
    )
    turn = wrap_angle(direction - agents.heading.astype(np.float64))
    arrived = ~((goal_radius < distance) & (distance < np.inf))
    return Course(arrived, np.where(arrived, 0.0, turn), length)


def _spread(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Map values [N] from [-1, 1] to a range, in float64."""
    low, high = bounds
    return low + (values.astype(np.float64) + 1) / 2 * (high - low)


def _unit(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Map values [N] from a range to [-1, 1]."""
    low, high = bounds
    return 2 * (values - low) / (high - low) - 1


def _share(most: float, values: np.ndarray) -> np.ndarray:
    """Return the share [N] of values that keeps them within [-most, most], at most 1."""
    return np.minimum(1.0, most / np.maximum(np.abs(values), 1e-12))
