"""Flight: velocities or accelerations in the frame of the body, a Box of numbers from -1 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Space
from typing_extensions import override

from gym_batchnav.actions.api import MAX_AMOUNT, Actions, validate_box
from gym_batchnav.episodes.samplers import EpisodeSampler
from gym_batchnav.flight.agents import VELOCITY, FlightAgents, FlightCommands
from gym_batchnav.flight.air import box_faces, find_air
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.kernels.fly import Dynamics
from gym_batchnav.geometry import to_agent_frame, wrap_angle
from gym_batchnav.navmesh.record import is_detour
from gym_batchnav.state import AgentState, StepOutcome, agent_state, check_values
from gym_batchnav.system.compilation import Workload
from gym_batchnav.system.numbers import check_between, check_choice, check_counts, check_positive

CONTROLS = ("velocity", "acceleration")
COMPONENTS = ("forward", "up", "side", "yaw")
_SLOW = 0.5  # seconds before a turn of the path in which the follower slows down
_AHEAD = 0.3  # least share of its speed at which the follower flies sideways and backwards


def fly_in_small_room() -> None:
    """Find the air of a small room, and fly an agent there, which compiles all kernels of flight."""
    low, high = np.zeros(3), np.array([2.0, 2.5, 2.0])
    floor = np.random.default_rng(0).uniform(0.2, 1.8, (50, 3)).astype(np.float32) * np.array([1, 0, 1], np.float32)
    air = find_air(box_faces(low, high), floor, 0.3, 0.3)
    air = air.with_goals(air.random_points(1, np.random.default_rng(0)))
    air.is_free(air.fields.goals)
    goal = np.zeros(1, np.int32)
    air.distance(air.fields.goals, goal)
    air.shortest_path(air.fields.goals[0], 0)
    kind = FlightActions()
    agents = kind.make_agents(1, kind.buffers(1))
    agents.set_slot(0, air)
    state = agent_state(1)
    outcome = StepOutcome(np.zeros(1, np.float32), np.zeros(1, bool))
    agents.step(kind.decode(np.zeros((1, 4), np.float32)), state, np.zeros(1, bool), outcome, sliding=True)
    agents.distance(state.slot, state.polygon, state.position, goal, outcome.moved)


@dataclass(frozen=True, slots=True)
class FlightActions(Actions):
    """The control of a small quadrotor with an onboard attitude controller.

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

    workload: ClassVar[Workload | None] = Workload("flying", fly_in_small_room)

    control: str = "velocity"
    max_speed: float = 1.5
    max_yaw_rate_deg: float = 90.0
    response_time: float = 0.2
    max_acceleration: float = 4.0
    drag: float = 1.0
    time_step: float = 0.2
    substeps: int = 4

    def __post_init__(self) -> None:
        check_choice("control", self.control, CONTROLS)
        check_positive(max_speed=self.max_speed, max_acceleration=self.max_acceleration, time_step=self.time_step)
        check_between(1e-3, 1e3, response_time=self.response_time, drag=self.drag)
        check_between(0.0, 3600.0, max_yaw_rate_deg=self.max_yaw_rate_deg)
        check_between(0.0, 1000.0, max_speed=self.max_speed, max_acceleration=self.max_acceleration)
        check_between(0.0, 60.0, time_step=self.time_step)
        check_counts(substeps=self.substeps)
        check_between(1, 1000, substeps=self.substeps)
        if self.control == "acceleration" and self.max_acceleration / self.drag > MAX_AMOUNT:
            raise ValueError(
                f"max_acceleration={self.max_acceleration:g} and drag={self.drag:g} balance at more than "
                f"{MAX_AMOUNT:g} m/s: pass a greater drag"
            )

    @property
    @override
    def space(self) -> Space:
        return Box(-1.0, 1.0, (len(COMPONENTS),), np.float32)

    @property
    def dynamics(self) -> Dynamics:
        """The dynamics of the agents."""
        response = 1 / self.response_time if self.control == "velocity" else self.drag
        return Dynamics(float(response), float(self.max_speed), float(self.time_step), int(self.substeps))

    @override
    def check_batch(self, settings: Any, sampler: EpisodeSampler) -> None:
        if settings.bodies or settings.team.most > 1:
            raise ValueError(
                f"actions={settings.actions!r}: flying agents cannot share a world: leave out agents_per_world= and "
                "bodies="
            )
        if not isinstance(sampler, FlightEpisodes):
            raise ValueError("actions='flight' needs a task in the air: pass task=DroneNav(), or choose other actions")
        if settings.noise is not None:
            raise ValueError("actuation_noise= models wheeled robots: leave it out for flying agents")
        if is_detour(settings.geodesic):
            raise ValueError("geodesic='detour' measures paths on navmeshes: leave it out for flying agents")
        rig = settings.rig
        for camera in rig.cameras.values() if rig.keys else ():  # blind agents carry none
            drawn = None if camera.jitter is None else camera.jitter.eye_height
            height = max(drawn or (camera.eye_height,), key=abs)
            if np.hypot(np.hypot(*camera.offset), height) > sampler.radius:
                raise ValueError(
                    f"camera with eye_height={height:g} and offset={camera.offset}: a flying agent carries it at most "
                    f"{sampler.radius:g} m from its centre: pass Camera(eye_height=0), and leave eye_height out of its "
                    "jitter"
                )

    @override
    def buffers(self, num_agents: int) -> dict[str, np.ndarray]:
        return {VELOCITY: np.zeros((num_agents, 3), np.float32)}

    @override
    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        most = 1.01 * self.max_speed  # of each component, after rounding
        check_values(VELOCITY, buffers[VELOCITY], -most, most)

    @override
    def make_agents(self, num_slots: int, buffers: Mapping[str, np.ndarray]) -> FlightAgents:
        return FlightAgents(num_slots, self.dynamics, buffers[VELOCITY])

    @override
    def validate(self, actions: Any, num_agents: int) -> np.ndarray:
        return validate_box(actions, num_agents, COMPONENTS)

    @override
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

    @override
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
        angle = np.where(flat > 1e-3, wrap_angle(aim - agents.heading), 0.0)
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
    """Return vectors [N, 3] of the world in the frames of bodies with headings [N]: ahead, up, to the right."""
    ahead, right = to_agent_frame(vectors, heading)
    return np.stack([ahead, vectors[:, 1], right], axis=1)
