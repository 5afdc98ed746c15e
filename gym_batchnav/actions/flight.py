"""Flight: velocities or accelerations in the frame of the body, a Box of numbers from -1 to 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space

from gym_batchnav.actions.api import Actions, validate_box
from gym_batchnav.flight.agents import Dynamics, FlightAgents
from gym_batchnav.state import AgentState, FlightCommands
from gym_batchnav.system.numbers import check_between, check_counts, check_positive

CONTROLS = ("velocity", "acceleration")
COMPONENTS = ("forward", "up", "side", "yaw")
_SLOW = 0.5  # seconds before a turn of the path in which the follower slows down
_AHEAD = 0.3  # least share of its speed at which the follower flies sideways and backwards


@dataclass(frozen=True, slots=True)
class FlightActions(Actions):
    """The control of a small quadrotor, whose attitude a controller of its own keeps level.

    The components are ``forward``, ``up``, ``side`` (to the right) and ``yaw`` (to the left), in the frame of the body,
    which turns with the heading and stays upright. With ``control="velocity"`` the first three command a velocity,
    ``v' = (command * max_speed - v) / response_time``. With ``"acceleration"`` they command an acceleration against a
    linear drag, ``v' = command * max_acceleration - drag * v``. The speed is limited to ``max_speed`` in both. The yaw
    rate is reached at once.

    Tasks for flying agents need no STOP, so there is none.

    Attributes:
        control: ``"velocity"`` or ``"acceleration"``.
        max_speed: Metres per second.
        max_yaw_rate_deg: Degrees per second.
        response_time: Seconds in which most of a change of velocity happens, with ``control="velocity"``.
        max_acceleration: Metres per second squared, with ``control="acceleration"``.
        drag: 1 / s, with ``control="acceleration"``.
        time_step: Duration of a step, seconds.
        substeps: Parts of a step, between which the body's frame turns.

    Raises:
        ValueError: A value is out of its range.
    """

    control: str = "velocity"
    max_speed: float = 1.5
    max_yaw_rate_deg: float = 90.0
    response_time: float = 0.2
    max_acceleration: float = 4.0
    drag: float = 1.0
    time_step: float = 0.2
    substeps: int = 4

    def __post_init__(self) -> None:
        """Raise ValueError unless every value is within its bounds."""
        if self.control not in CONTROLS:
            raise ValueError(f"control={self.control!r}: choose one of {', '.join(map(repr, CONTROLS))}")
        check_positive(max_speed=self.max_speed, max_acceleration=self.max_acceleration, time_step=self.time_step)
        check_between(1e-3, 1e3, response_time=self.response_time, drag=self.drag)
        check_between(0.0, 3600.0, max_yaw_rate_deg=self.max_yaw_rate_deg)
        check_between(0.0, 1000.0, max_speed=self.max_speed, max_acceleration=self.max_acceleration)
        check_between(0.0, 60.0, time_step=self.time_step)
        check_counts(substeps=self.substeps)
        check_between(1, 1000, substeps=self.substeps)

    @property
    def space(self) -> Space:
        """Gymnasium's space of one agent's action."""
        return Box(-1.0, 1.0, (len(COMPONENTS),), np.float32)

    @property
    def dynamics(self) -> Dynamics:
        """The dynamics of the agents."""
        response = 1 / self.response_time if self.control == "velocity" else self.drag
        return Dynamics(response, float(self.max_speed), float(self.time_step), int(self.substeps))

    def make_agents(self, num_slots: int) -> FlightAgents:
        """Return flying agents in the air of slots."""
        return FlightAgents(num_slots, self.dynamics)

    def validate(self, actions: Any, num_agents: int) -> np.ndarray:
        """Return actions as float32 [N, 4]; ValueError for another shape, dtype or value."""
        return validate_box(actions, num_agents, COMPONENTS)

    def decode(self, actions: np.ndarray) -> FlightCommands:
        """Return the velocities that actions [N, 4] command, or those at which drag balances an acceleration."""
        scale = self.max_speed if self.control == "velocity" else self.max_acceleration / self.drag
        velocity = scale * actions[:, :3].astype(np.float64)
        speed = np.linalg.norm(velocity, axis=1, keepdims=True)
        if self.control == "velocity":
            velocity *= self.max_speed / np.maximum(speed, self.max_speed)
        turn = np.radians(self.max_yaw_rate_deg) * self.time_step * actions[:, 3].astype(np.float64)
        return FlightCommands(
            turn=turn,
            forward=velocity[:, 0].copy(),
            up=velocity[:, 1].copy(),
            side=velocity[:, 2].copy(),
            stop=np.zeros(len(actions), bool),
        )

    def follow(  # type: ignore[override]  # flying agents, which make_agents has made
        self, navmeshes: FlightAgents, agents: AgentState, goal_index: np.ndarray, goal_radius: float, sliding: bool
    ) -> np.ndarray:
        """Return the actions [N, 4] float32 that fly along the shortest path, and look ahead on it."""
        distance = np.empty(len(goal_index), np.float32)
        turns = navmeshes.courses(agents.slot, agents.position, goal_index, distance)
        offset = turns - agents.position
        length = np.linalg.norm(offset, axis=1)
        flat = np.hypot(offset[:, 0], offset[:, 2])
        aim = np.arctan2(-offset[:, 0], -offset[:, 2])
        angle = np.where(flat > 1e-3, _wrapped(aim - agents.heading), 0.0)
        ahead = np.maximum(np.cos(angle), _AHEAD)
        steep = np.divide(np.abs(offset[:, 1]), length, out=np.ones_like(length), where=length > 0)
        speed = np.minimum(self.max_speed * np.maximum(ahead, steep), length / _SLOW)
        wanted = offset * np.divide(speed, length, out=np.zeros_like(length), where=length > 0)[:, None]
        wanted[~np.isfinite(distance)] = 0
        most = max(np.radians(self.max_yaw_rate_deg) * self.time_step, 1e-9)
        yaw = np.clip(angle / most, -1, 1)
        middle = agents.heading + 0.5 * most * yaw  # the frame of the body in the middle of the step
        body = to_body(wanted, middle)
        if self.control == "velocity":
            return np.column_stack([np.clip(body / self.max_speed, -1, 1), yaw]).astype(np.float32)
        error = to_body(wanted - navmeshes.velocity, middle)
        thrust = (error / max(self.time_step, self.response_time) + self.drag * body) / self.max_acceleration
        return np.column_stack([np.clip(thrust, -1, 1), yaw]).astype(np.float32)


def to_body(vectors: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """Return vectors [N, 3] of the world in the frames of bodies with headings [N]: forward, up, to the right."""
    sin = np.sin(heading)
    cos = np.cos(heading)
    forward = -sin * vectors[:, 0] - cos * vectors[:, 2]
    right = cos * vectors[:, 0] - sin * vectors[:, 2]
    return np.stack([forward, vectors[:, 1], right], axis=1)


def _wrapped(angle: np.ndarray) -> np.ndarray:
    return (angle + np.pi) % (2 * np.pi) - np.pi
