"""The state of a batch: structure of arrays, allocated once and written in place."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np

STATE_REMEDY = "pass the state of an environment with the same arguments"  # of a state that does not fit
_ALIGNMENT = 64  # bytes between the beginnings of arrays in a block: lines of the processor's cache


class Action(IntEnum):
    """The discrete actions of an agent, numbered as in Habitat; the last two only exist if an agent can look up."""

    STOP = 0
    MOVE_FORWARD = 1
    TURN_LEFT = 2
    TURN_RIGHT = 3
    LOOK_UP = 4
    LOOK_DOWN = 5


NUM_ACTIONS = 4  # of an agent that cannot look up: those before LOOK_UP


class Commands(NamedTuple):
    """The motion of every agent in a step: actions of any kind, decoded.

    An agent turns on the spot and then walks straight ahead and to the side, along its new heading. With ``is_arc`` it
    does both at once, at constant speeds, and so walks along an arc of a circle.
    """

    turn: np.ndarray  # [N] float64, radians, left positive
    forward: np.ndarray  # [N] float64, metres
    side: np.ndarray  # [N] float64, metres to the right
    stop: np.ndarray  # [N] bool, whether STOP is called
    look: np.ndarray | None = None  # [N] float64, radians by which the cameras tilt up; None if they cannot tilt
    is_arc: bool = False
    longest_part: float = float("inf")  # metres; a longer walk is done in equal parts, each like a short walk


def _array(dtype: type, *shape: int | str, first: int = 0) -> Any:
    """Declare an array [rows, *shape] of a state and the value that fills it at first.

    A size with a name, such as ``"bodies"``, is given when a state is made.
    """
    return field(metadata={"array": (dtype, shape, first)})


class StepOutcome(NamedTuple):
    """The results of a move; kernels write into these arrays."""

    moved: np.ndarray  # [N] float32, metres walked or flown, in 3-D
    collided: np.ndarray  # [N] bool, whether an agent moved against an obstacle


@dataclass(frozen=True, slots=True, eq=False)
class AgentState:
    """Pose of every agent; the arrays are written in place, never rebound.

    Attributes:
        slot: [N] int32, slot of the agent's scene in the library.
        polygon: [N] int32, navmesh polygon underfoot, local to the slot; 0 for agents that fly.
        position: [N, 3] float32, metres, on the navmesh, or the centre of an agent that flies.
        heading: [N] float32, radians about +y; 0 looks along -z, left is positive.
        pitch: [N] float32, radians by which the agent has tilted its cameras; up is positive, 0 when an episode begins.
    """

    slot: np.ndarray = _array(np.int32)
    polygon: np.ndarray = _array(np.int32)
    position: np.ndarray = _array(np.float32, 3)
    heading: np.ndarray = _array(np.float32)
    pitch: np.ndarray = _array(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeState:
    """Current episode of every environment and its progress; written in place like AgentState.

    Attributes:
        seed: [N] uint64, keys the draws of each environment.
        count: [N] int64, episodes begun since the last seeding.
        key: [N] uint64, keys every draw of the current episode; see ``TaskState.uniform``.
        episode: [N] int32, row in the scene's EpisodeSet.
        start: [N, 3] float32, metres.
        start_heading: [N] float32, radians.
        goal: [N, 3] float32, metres; the next one of a tour, and of a set of goals the one nearest to the start.
        goal_index: [N] int32, row in the scene's sets of goals.
        num_goals: [N] int32, number of goals to be reached one after the other; 1 except in tours.
        num_reached: [N] int32, number of these that have been reached.
        reached: [N] bool, whether the last action was STOP at the goal.
        category: [N] int32, row of the goal's category; meaningful only in tasks with categories, as 0 is the first.
        target: [N, 3] float32, metres; centre of the object that is the goal, or the goal itself.
        viewpoint: [N, 3] float32, metres; place on the navmesh from which a goal camera looks at the target.
        start_distance: [N] float32, geodesic distance from start to goal, or the length of the shortest tour, metres.
        reached_distance: [N] float32, length of the shortest tour of the goals that have been reached, metres.
        previous_distance: [N] float32, geodesic distance to the goal before the last step, metres.
        distance: [N] float32, geodesic distance to the goal after the last step, metres.
        path_length: [N] float64, metres walked.
        num_steps: [N] int32, actions taken.
        num_collisions: [N] int32, moves that ended at an obstacle.
        stopped: [N] bool, whether the last action was STOP.
        done: [N] bool, whether the episode has ended and no new one has begun.
        valid: [N] bool, False if no episode is left to run.
    """

    seed: np.ndarray = _array(np.uint64)
    count: np.ndarray = _array(np.int64)
    key: np.ndarray = _array(np.uint64)
    episode: np.ndarray = _array(np.int32)
    start: np.ndarray = _array(np.float32, 3)
    start_heading: np.ndarray = _array(np.float32)
    goal: np.ndarray = _array(np.float32, 3)
    goal_index: np.ndarray = _array(np.int32)
    num_goals: np.ndarray = _array(np.int32, first=1)
    num_reached: np.ndarray = _array(np.int32)
    reached: np.ndarray = _array(bool)
    category: np.ndarray = _array(np.int32)
    target: np.ndarray = _array(np.float32, 3)
    viewpoint: np.ndarray = _array(np.float32, 3)
    start_distance: np.ndarray = _array(np.float32)
    reached_distance: np.ndarray = _array(np.float32)
    previous_distance: np.ndarray = _array(np.float32)
    distance: np.ndarray = _array(np.float32)
    path_length: np.ndarray = _array(np.float64)
    num_steps: np.ndarray = _array(np.int32)
    num_collisions: np.ndarray = _array(np.int32)
    stopped: np.ndarray = _array(bool)
    done: np.ndarray = _array(bool)
    valid: np.ndarray = _array(bool, first=1)


@dataclass(frozen=True, slots=True, eq=False)
class WorldState:
    """The bodies of W worlds, B in each: first its M agents, then those that no policy moves; written in place.

    Row ``w M + m`` of AgentState and EpisodeState is agent m of world w.

    Attributes:
        num_steps: [W] int32, steps since the episodes of a world began.
        present: [W, B] bool, whether a body is there: seen by others, and in their way.
        polygon: [W, B] int32, navmesh polygon underfoot.
        position: [W, B, 3] float32, metres, on the navmesh.
        previous: [W, B, 3] float32, metres, before the last step.
        heading: [W, B] float32, radians.
        touched: [W, B] bool, whether another body stopped it in the last step.
        num_touches: [W, B] int32, steps of the episode in which another body stopped it.
        goal_index: [W, B] int32, where a scripted body goes: row in the scene's sets of goals.
        num_goals: [W, B] int32, goals that a scripted body has been given since the episode began.
        terminated: [W, M] bool, whether an agent's own episode has been terminated.
        truncated: [W, M] bool, whether an agent's own episode has been truncated, or it takes no part in this one.
    """

    num_steps: np.ndarray = _array(np.int32)
    present: np.ndarray = _array(bool, "bodies")
    polygon: np.ndarray = _array(np.int32, "bodies")
    position: np.ndarray = _array(np.float32, "bodies", 3)
    previous: np.ndarray = _array(np.float32, "bodies", 3)
    heading: np.ndarray = _array(np.float32, "bodies")
    touched: np.ndarray = _array(bool, "bodies")
    num_touches: np.ndarray = _array(np.int32, "bodies")
    goal_index: np.ndarray = _array(np.int32, "bodies")
    num_goals: np.ndarray = _array(np.int32, "bodies")
    terminated: np.ndarray = _array(bool, "agents")
    truncated: np.ndarray = _array(bool, "agents")

    @property
    def num_agents(self) -> int:
        """M, the number of agents of a world."""
        return self.terminated.shape[1]

    @property
    def waiting(self) -> np.ndarray:
        """Whether each agent [W, M] bool waits for the others of its world to end their episodes."""
        return self.terminated | self.truncated


@dataclass(frozen=True, slots=True, eq=False)
class WorldView:
    """The worlds of a batch, as read by tasks, sensors and measures.

    Attributes:
        state: The bodies of all worlds, read-only.
        radius: [B] float64, metres, of the discs that block others.
        seconds: Duration of a step.
        height: Metres; bodies whose feet differ by more are on different floors and do not collide.
        least_agents: The least number of agents that an episode of a world may have.
    """

    state: WorldState
    radius: np.ndarray
    seconds: float
    height: float
    least_agents: int

    @property
    def num_agents(self) -> int:
        """M, the number of agents of a world."""
        return self.state.num_agents

    def gaps(self) -> np.ndarray:
        """Return the distances [N, B] float64, metres, between the discs of every agent and every body of its world.

        They are horizontal, negative for discs that overlap, and inf for an agent itself, for bodies that are not
        there, and for those on another floor.
        """
        position = self.state.position.astype(np.float64)
        agents = self.num_agents
        way = position[:, :agents, None] - position[:, None]
        gap = np.hypot(way[..., 0], way[..., 2]) - self.radius[:agents, None] - self.radius
        apart = np.abs(way[..., 1]) >= self.height
        apart |= ~self.state.present[:, None] | ~self.state.present[:, :agents, None]
        apart[:, np.arange(agents), np.arange(agents)] = True
        return np.where(apart, np.inf, gap).reshape(-1, gap.shape[2])


State = TypeVar("State", AgentState, EpisodeState, WorldState)


def agent_state(num_agents: int) -> AgentState:
    """Return a state of zeros for ``num_agents`` agents."""
    return _new(AgentState, num_agents)


def episode_state(num_envs: int) -> EpisodeState:
    """Return a state of zeros for ``num_envs`` environments, all of them valid and with one goal."""
    return _new(EpisodeState, num_envs)


def world_state(num_worlds: int, num_agents: int, num_bodies: int) -> WorldState:
    """Return a state of zeros for ``num_worlds`` worlds of ``num_bodies`` bodies, ``num_agents`` of them agents."""
    return _new(WorldState, num_worlds, agents=num_agents, bodies=num_bodies)


def _new(kind: type[State], num_rows: int, **sizes: int) -> State:
    """Return a state whose arrays have the declared shapes, dtypes and first values."""
    arrays: dict[str, np.ndarray] = {}
    for one in fields(kind):
        declared: tuple[type, tuple[int | str, ...], int] = one.metadata["array"]
        shape: list[int] = [sizes[size] if isinstance(size, str) else size for size in declared[1]]
        arrays[one.name] = np.full((num_rows, *shape), declared[2], declared[0])
    return kind(**arrays)


def read_only(state: State) -> State:
    """Return a copy of a state whose arrays are read-only views of the original arrays."""
    return type(state)(**{name: locked(array) for name, array in arrays_of(state).items()})


def copy_of(state: State) -> State:
    """Return a copy of a state and its arrays."""
    return type(state)(**{name: array.copy() for name, array in arrays_of(state).items()})


def rows_of(state: State, indices: np.ndarray) -> State:
    """Return a copy of the rows ``indices`` [M] of a state."""
    return type(state)(**{name: array[indices] for name, array in arrays_of(state).items()})


def locked(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


class Buffers(Mapping[str, np.ndarray]):
    """Arrays [N, ...], by name, in which components keep data during an episode.

    Assigning to a name writes into the existing array, which the batch saves and restores.

    Args:
        arrays: The arrays by name.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = dict(arrays)

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the array of a name; raise KeyError for a name that no component has declared."""
        if name not in self._arrays:
            known = ", ".join(map(repr, self._arrays)) or "none"
            raise KeyError(f"buffer {name!r}: no component's buffers() returned this name; known are {known}")
        return self._arrays[name]

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        """Write values into the array of a name.

        Raises:
            KeyError: If no component has declared the name.
            ValueError: If the values have a wrong shape, or a dtype that cannot be cast to the array's.
        """
        array = self[name]
        if values is array:  # `buffers[name] += 1` has already written in place
            return
        try:
            np.copyto(array, values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"buffer {name!r} is {array.dtype} {array.shape}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class BufferRows(Buffers):
    """Some rows of buffers, copied when they are read.

    Args:
        buffers: The buffers.
        rows: [M] int.
    """

    def __init__(self, buffers: Buffers, rows: np.ndarray) -> None:
        super().__init__(buffers)
        self._rows = rows

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the rows of the array of a name."""
        return super().__getitem__(name)[self._rows]


def arrays_of(state: AgentState | EpisodeState | WorldState) -> dict[str, np.ndarray]:
    """Return every array of a state, by name."""
    return {one.name: getattr(state, one.name) for one in fields(state)}


def checked_parts(
    parts: Mapping[str, Mapping[str, np.ndarray]], given: Mapping[str, Any]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the arrays of a state that comes from outside, by part and name.

    Raises:
        ValueError: They are not those of ``parts``: another name, shape (such as of another number of environments) or
            dtype, or flags whose bytes are other than 0 and 1, which NumPy does not check.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    for part, arrays in parts.items():
        others = given.get(part)
        if not isinstance(others, Mapping):
            raise ValueError(f"state without arrays of {part!r}: pass what get_state() returned")
        unknown = sorted(map(repr, set(others) - set(arrays)))
        if unknown:
            raise ValueError(
                f"state[{part!r}] has arrays {', '.join(unknown)[:200]}, which this environment does not have: "
                f"{STATE_REMEDY}"
            )
        found[part] = {name: _checked(name, array, others) for name, array in arrays.items()}
    return found


def _checked(name: str, expected: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
    """Return the array of a name; raise ValueError unless it is like the expected one."""
    try:
        array = np.asarray(given[name]) if name in given else None
    except Exception as error:  # whatever the conversion of foreign objects raises
        raise ValueError(f"state array {name!r} is a {type(given[name]).__name__}: {error}") from error
    if array is None or array.shape != expected.shape or array.dtype != expected.dtype:
        text = "missing" if array is None else f"{array.dtype} {array.shape}"
        raise ValueError(f"state array {name!r} is {text}, expected {expected.dtype} {expected.shape}: {STATE_REMEDY}")
    if array.dtype == bool and (np.ascontiguousarray(array).view(np.uint8) > 1).any():
        raise ValueError(f"state array {name!r} has flags that are neither 0 nor 1: {STATE_REMEDY}")
    return array


def check_values(name: str, array: np.ndarray, least: float, most: float) -> None:
    """Raise ValueError unless all values of an array of a state are from ``least`` to ``most``, and none is NaN."""
    if not ((array >= least) & (array <= most)).all():
        raise ValueError(f"state array {name!r} has values that are not from {least:g} to {most:g}: {STATE_REMEDY}")


def write_arrays(arrays: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> None:
    """Copy the given arrays into the arrays of the same names."""
    for name, current in arrays.items():
        current[...] = given[name]


class StateLayout:
    """The places of arrays in one block of bytes, so that a whole state is saved or restored by one copy.

    Args:
        parts: Arrays by part and name, such as ``{"agents": {"slot": ...}}``, whose shapes and dtypes are taken.

    Attributes:
        nbytes: Size of a block.
    """

    def __init__(self, parts: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        self._places: dict[str, dict[str, tuple[int, np.dtype, tuple[int, ...]]]] = {}
        self.nbytes = 0
        for part, arrays in parts.items():
            self._places[part] = {}
            for name, array in arrays.items():
                self._places[part][name] = (self.nbytes, array.dtype, array.shape)
                self.nbytes += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT

    def views(self, block: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        """Return the arrays of a block [nbytes] uint8 by part and name, which share its memory."""
        return {
            part: {name: np.ndarray(shape, dtype, block, start) for name, (start, dtype, shape) in places.items()}
            for part, places in self._places.items()
        }

    def fingerprint(self, *others: object) -> int:
        """Return a checksum, from 0 to 2**32 - 1, of names, shapes and dtypes, and of ``others``."""
        return zlib.crc32(repr((self._places, others)).encode())


class StateBlock:
    """All arrays of a batch in one block of bytes, as ``agent_state`` and ``episode_state`` make them.

    Args:
        num_agents: N.
        buffers: Zeroed arrays [N, ...] by name, whose shapes and dtypes are taken.
        worlds: Zeroed arrays [W, ...] by name of the worlds that agents share, likewise; None if each is alone.

    Attributes:
        layout: Places of the arrays in the block.
        block: [layout.nbytes] uint8.
        parts: Every array, by part (``"agents"``, ``"episodes"``, ``"buffers"``, ``"worlds"``) and name.
        agents: AgentState of these arrays.
        episodes: EpisodeState of these arrays.
        buffers: Buffers of these arrays.
    """

    def __init__(
        self, num_agents: int, buffers: Mapping[str, np.ndarray], worlds: Mapping[str, np.ndarray] | None = None
    ) -> None:
        state = {"agents": arrays_of(agent_state(num_agents)), "episodes": arrays_of(episode_state(num_agents))}
        others = {"buffers": buffers} if worlds is None else {"buffers": buffers, "worlds": worlds}
        self.layout = StateLayout({**state, **others})
        self.block = np.zeros(self.layout.nbytes, np.uint8)
        self.parts = self.layout.views(self.block)
        for part, arrays in state.items():
            write_arrays(self.parts[part], arrays)
        self.agents = AgentState(**self.parts["agents"])
        self.episodes = EpisodeState(**self.parts["episodes"])
        self.buffers = Buffers(self.parts["buffers"])
