"""The state of a batch: structure of arrays, allocated once and written in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TypeVar

import numpy as np


class Action(IntEnum):
    """The discrete actions, Habitat's."""

    STOP = 0
    MOVE_FORWARD = 1
    TURN_LEFT = 2
    TURN_RIGHT = 3


@dataclass(frozen=True, slots=True, eq=False)
class AgentState:
    """Pose of every agent; the arrays are written in place, never rebound."""

    slot: np.ndarray  # [N] int32, slot of the agent's scene in the library
    polygon: np.ndarray  # [N] int32, navmesh polygon underfoot, local to the slot
    position: np.ndarray  # [N, 3] float32, metres
    heading: np.ndarray  # [N] float32, radians about +y, 0 looks along -z, left is positive


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeState:
    """What every environment's episode is and what has come of it; written in place like AgentState."""

    seed: np.ndarray  # [N] uint64, keys the draws of each environment
    count: np.ndarray  # [N] int64, episodes begun since the last seeding
    episode: np.ndarray  # [N] int32, row in the scene's EpisodeSet
    start: np.ndarray  # [N, 3] float32, metres
    start_heading: np.ndarray  # [N] float32, radians
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
        slot=np.zeros(num_agents, np.int32),
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
        start=np.zeros((num_envs, 3), np.float32),
        start_heading=np.zeros(num_envs, np.float32),
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


def read_only(state: State) -> State:
    """The arrays of a state, as views that cannot be written."""
    return type(state)(**{name: locked(array) for name, array in arrays_of(state).items()})


def locked(array: np.ndarray) -> np.ndarray:
    """A view of an array that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


class Memory(Mapping[str, np.ndarray]):
    """Arrays [N, ...] in which components remember their episodes, by name.

    Assigning to a name writes into its array, since a batch, its parts and whoever saves their state hold the same.

    Args:
        arrays: By name.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = dict(arrays)

    def __getitem__(self, name: str) -> np.ndarray:
        """The array of a name; KeyError for one that no component has declared."""
        if name not in self._arrays:
            known = ", ".join(map(repr, self._arrays)) or "none"
            raise KeyError(f"memory {name!r}: have memory() of a component return it; there is {known}")
        return self._arrays[name]

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        """Write values into the array of a name.

        Raises:
            KeyError: No component has declared it.
            ValueError: They have another shape, or a dtype that does not fit into the array's.
        """
        array = self[name]
        if values is array:  # after `memory[name] += 1`, which has written already
            return
        try:
            np.copyto(array, values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"memory {name!r} is {array.dtype} {array.shape}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """How many arrays there are."""
        return len(self._arrays)


def arrays_of(state: AgentState | EpisodeState) -> dict[str, np.ndarray]:
    """Every array of a state, by name."""
    return {field.name: getattr(state, field.name) for field in fields(state)}


def check_arrays(arrays: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that ``write_arrays`` could not write into others.

    Raises:
        ValueError: an array is missing or has another shape, as when the state is of another number of environments.
    """
    for name, current in arrays.items():
        found = np.asarray(given[name]) if name in given else None
        if found is None or found.shape != current.shape or found.dtype.kind != current.dtype.kind:
            text = "missing" if found is None else f"{found.dtype} {found.shape}"
            raise ValueError(f"state array {name!r} is {text}, expected {current.dtype} {current.shape}")


def write_arrays(arrays: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> None:
    """Write given arrays into those of the same names."""
    for name, current in arrays.items():
        current[...] = given[name]
