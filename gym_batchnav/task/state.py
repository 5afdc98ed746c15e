"""The state of a batch: structure of arrays, allocated once and written in place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class AgentState:
    """Pose of every agent; the arrays are written in place, never rebound."""

    scene: np.ndarray  # [N] int32, slot in the library
    polygon: np.ndarray  # [N] int32, navmesh polygon underfoot, local to the slot
    position: np.ndarray  # [N, 3] float32, metres
    heading: np.ndarray  # [N] float32, radians about +y, 0 looks along -z, left is positive


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeState:
    """What every environment's episode is and what has come of it; written in place like AgentState."""

    seed: np.ndarray  # [N] uint64, keys the draws of each environment
    count: np.ndarray  # [N] int64, episodes begun since the last seeding
    episode: np.ndarray  # [N] int32, row in the scene's EpisodeSet
    goal: np.ndarray  # [N, 3] float32, metres
    goal_index: np.ndarray  # [N] int32, row in the scene's goals
    start_distance: np.ndarray  # [N] float32, geodesic, metres
    previous_distance: np.ndarray  # [N] float32, to the goal before the last step, metres
    distance: np.ndarray  # [N] float32, to the goal now, metres
    path_length: np.ndarray  # [N] float64, metres walked
    num_steps: np.ndarray  # [N] int32
    num_collisions: np.ndarray  # [N] int32
    stopped: np.ndarray  # [N] bool, STOP was called
    done: np.ndarray  # [N] bool, the episode has ended and no new one has begun
    valid: np.ndarray  # [N] bool, False where no episode is left to run


def agent_state(num_agents: int) -> AgentState:
    """A state of zeros for ``num_agents`` agents."""
    return AgentState(
        scene=np.zeros(num_agents, np.int32),
        polygon=np.zeros(num_agents, np.int32),
        position=np.zeros((num_agents, 3), np.float32),
        heading=np.zeros(num_agents, np.float32),
    )


def episode_state(num_envs: int) -> EpisodeState:
    """A state of zeros for ``num_envs`` environments."""
    return EpisodeState(
        seed=np.zeros(num_envs, np.uint64),
        count=np.zeros(num_envs, np.int64),
        episode=np.zeros(num_envs, np.int32),
        goal=np.zeros((num_envs, 3), np.float32),
        goal_index=np.zeros(num_envs, np.int32),
        start_distance=np.zeros(num_envs, np.float32),
        previous_distance=np.zeros(num_envs, np.float32),
        distance=np.zeros(num_envs, np.float32),
        path_length=np.zeros(num_envs, np.float64),
        num_steps=np.zeros(num_envs, np.int32),
        num_collisions=np.zeros(num_envs, np.int32),
        stopped=np.zeros(num_envs, bool),
        done=np.zeros(num_envs, bool),
        valid=np.ones(num_envs, bool),
    )


State = TypeVar("State", AgentState, EpisodeState)


def rows_of(state: State, rows: range) -> State:
    """Consecutive rows of a state, as views of its arrays."""
    views = {field.name: getattr(state, field.name)[rows.start : rows.stop] for field in fields(state)}
    return type(state)(**views)


def copy_arrays(state: AgentState | EpisodeState) -> dict[str, np.ndarray]:
    """Every array of a state, copied, by name."""
    return {field.name: getattr(state, field.name).copy() for field in fields(state)}


def check_arrays(state: AgentState | EpisodeState, arrays: dict[str, np.ndarray]) -> None:
    """Refuse arrays that ``write_arrays`` could not write into a state.

    Raises:
        ValueError: an array is missing or has another shape, as when the state is of another number of environments.
    """
    for field in fields(state):
        current = getattr(state, field.name)
        given = np.asarray(arrays[field.name]) if field.name in arrays else None
        if given is None or given.shape != current.shape or given.dtype.kind != current.dtype.kind:
            found = "missing" if given is None else f"{given.dtype} {given.shape}"
            raise ValueError(f"state array {field.name!r} is {found}, expected {current.dtype} {current.shape}")


def write_arrays(state: AgentState | EpisodeState, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays that ``copy_arrays`` gave back into a state."""
    for field in fields(state):
        getattr(state, field.name)[...] = arrays[field.name]
