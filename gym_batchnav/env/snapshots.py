"""Snapshots: the state of a batch as a value, to keep, to read, to branch from; and checks of states from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from gym_batchnav.actions.api import MAX_PITCH
from gym_batchnav.env.arguments import indices_of
from gym_batchnav.library.prepare import AnyNavigation
from gym_batchnav.navmesh.record import MAX_COORDINATE
from gym_batchnav.state import AgentState, EpisodeState, StateLayout, check_values, locked

_FAR = 10 * MAX_COORDINATE  # metres
_MANY = 2**30  # steps, collisions or goals: counters of 32 bits do not overflow soon
_RANGES: dict[str, tuple[float, float]] = {  # of arrays of a state, by name
    **dict.fromkeys(("position", "previous", "start", "goal", "target", "viewpoint"), (-_FAR, _FAR)),
    **dict.fromkeys(("heading", "start_heading"), (-1e4, 1e4)),
    "pitch": (-float(np.float32(MAX_PITCH)), float(np.float32(MAX_PITCH))),
    **dict.fromkeys(("start_distance", "reached_distance", "previous_distance", "distance"), (-np.inf, np.inf)),
    "path_length": (0, 1e12),
    "count": (0, 2**62),
    **dict.fromkeys(("num_steps", "num_collisions", "num_touches", "num_goals", "num_reached"), (0, _MANY)),
}


class BatchState:
    """The state of N environments at one time. It never changes: a step of the batch as a function returns another one.

    It holds the poses, the episodes with their counters and seeds, and the memory of sensors, measures and delays in
    one block of bytes, and beside it the queue of episodes and which scenes are resident. It does not hold images.

    Args:
        layout: Places of the arrays in the block.
        block: [layout.nbytes] uint8; it must not be written to any more.
        schedule: State of the EpisodeSchedule.
        library: State of the SceneLibrary.
        generation: The library's generation at that time.

    Attributes:
        agents: Pose of every agent, read-only arrays.
        episodes: Episode of every environment, read-only arrays.
        memory: Memory of the sensors and measures by name, read-only arrays.
    """

    __slots__ = ("agents", "block", "episodes", "generation", "layout", "library", "memory", "schedule")

    def __init__(
        self,
        layout: StateLayout,
        block: np.ndarray,
        schedule: Mapping[str, Any],
        library: Mapping[str, Any],
        generation: int,
    ) -> None:
        self.layout = layout
        self.block = locked(block)
        self.schedule = schedule
        self.library = library
        self.generation = generation
        views = layout.views(self.block)
        self.agents = AgentState(**views["agents"])
        self.episodes = EpisodeState(**views["episodes"])
        self.memory: Mapping[str, np.ndarray] = views["memory"]

    @property
    def num_envs(self) -> int:
        """The number of environments, N."""
        return len(self.agents.slot)

    @property
    def nbytes(self) -> int:
        """The bytes that this state takes."""
        return self.layout.nbytes

    def take(self, indices: Any) -> BatchState:
        """Return the state in which environment i stands where environment ``indices[i]`` stands in this one.

        It continues the same episode with the same noise, so that copies act alike until their actions differ. The
        scenes of later episodes depend on i as well.

        Args:
            indices: [N] int.

        Raises:
            ValueError: The indices are not N numbers from 0 to N - 1.
        """
        indices = indices_of(indices, self.num_envs)
        if len(indices) != self.num_envs:
            raise ValueError(f"{len(indices)} indices for {self.num_envs} environments: pass one each")
        block = np.empty_like(self.block)
        taken = self.layout.views(block)
        for part, arrays in self.layout.views(self.block).items():
            rows = self._worlds_of(indices, len(arrays["keys"])) if part == "worlds" else indices
            for name, array in arrays.items():
                np.take(array, rows, axis=0, out=taken[part][name])
        return BatchState(self.layout, block, self.schedule, self.library, self.generation)

    def _worlds_of(self, indices: np.ndarray, num_worlds: int) -> np.ndarray:
        """Return the worlds [W] of environments [N]; raise ValueError unless they are whole worlds."""
        size = self.num_envs // num_worlds
        worlds = indices[::size] // size
        if not np.array_equal(indices.reshape(-1, size), worlds[:, None] * size + np.arange(size)):
            raise ValueError(f"the {size} agents of a world stay together: take the indices of whole worlds")
        return worlds

    def as_dict(self) -> dict[str, Any]:
        """Return this state as ``BatchNavEnv.get_state`` would; the arrays are read-only and share its memory."""
        return {**self.layout.views(self.block), "schedule": dict(self.schedule), "library": dict(self.library)}

    def __repr__(self) -> str:
        """Return one line."""
        return f"BatchState(num_envs={self.num_envs}, nbytes={self.nbytes})"

    def __copy__(self) -> BatchState:
        """Return this object, which never changes."""
        return self

    def __deepcopy__(self, memo: Any) -> BatchState:
        """Return this object, which never changes."""
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise TypeError, because a state belongs to its batch."""
        raise TypeError("BatchState cannot be pickled: pack() of the batch's functional() makes an array of it")


def check_fits(parts: Mapping[str, Mapping[str, np.ndarray]], navigations: Sequence[AnyNavigation | None]) -> None:
    """Check the values of a state that comes from outside before kernels read them.

    Args:
        parts: The arrays by part and name, with the right shapes and dtypes.
        navigations: The navmesh, tables and episodes of the scene in every slot.

    Raises:
        ValueError: A row number is not within the scenes' arrays, or a pose or a counter is out of range.
    """
    agents = parts["agents"]
    episodes = parts["episodes"]
    slot = agents["slot"]
    if slot.min() < 0 or slot.max() >= len(navigations):
        raise ValueError(f"state with scenes up to {slot.max()}: this library has {len(navigations)}")
    for arrays in parts.values():
        for name, (least, most) in _RANGES.items():
            if name in arrays:
                check_values(name, arrays[name], least, most)
    limits = {
        "episode": [0 if one is None else len(one.episode_set) for one in navigations],
        "goal_index": [0 if one is None else len(one.episode_set.first_goal) - 1 for one in navigations],
        "polygon": [0 if one is None else one.navmesh.num_polygons for one in navigations],
        "category": [0 if one is None else 1 + one.episode_set.category.max() for one in navigations],
    }
    for name, limit in limits.items():
        _check_limit(name, {**agents, **episodes}[name], np.array(limit)[slot])
    if "worlds" in parts:
        bodies = parts["worlds"]
        of_worlds = slot.reshape(len(bodies["polygon"]), -1)
        if (of_worlds != of_worlds[:, :1]).any():
            raise ValueError("state array 'slot' does not fit: agents of a world are in different scenes")
        for name in ("goal_index", "polygon"):
            _check_limit(name, bodies[name], np.array(limits[name])[of_worlds[:, :1]])
    tours = np.array([0 if one is None else one.episode_set.tour.shape[1] for one in navigations])[slot]
    if (episodes["num_reached"] > episodes["num_goals"]).any() or (episodes["num_goals"] > tours).any():
        raise ValueError("state arrays 'num_reached' and 'num_goals' do not fit: they belong to other episodes")


def _check_limit(name: str, rows: np.ndarray, limit: np.ndarray) -> None:
    """Raise ValueError unless all rows are from 0 to below a limit that they broadcast with."""
    if (rows < 0).any() or (rows >= limit).any():
        raise ValueError(f"state array {name!r} does not fit: it belongs to other scenes or episodes")
