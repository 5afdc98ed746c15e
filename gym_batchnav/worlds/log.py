"""Logs: the motion of all bodies of a world in an episode, in a file, and bodies that repeat it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.system.arrays import UNREADABLE, array_of_npy
from gym_batchnav.system.numbers import check_between, check_flags
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.worlds.api import MAX_BODIES, OF_DOORS, BodyMotion, MovingBodies, check_body

MAX_LOG_BYTES = 2**28
MAX_STEPS = 10**6
HURRY = 1.5  # a reactive body walks at most this much faster than it ever did in the log
WINDOW = 16  # rows of the log by which a reactive body may get on in a step
PARTS = ("agents", "episodes", "buffers", "worlds")  # of a state
_ARRAYS = ("radius", "position", "heading", "present", "actions")
_MAX_ARRAYS = 1000  # of a file
_STATE = "state."  # before the names of the arrays of the state, in a file
_FORMAT = "gym_batchnav world log 1"
_MAX_REASON = 300  # characters of a reason, which may quote the file


@dataclass(frozen=True, repr=False, eq=False)
class WorldLog:
    """A record of the B bodies of a world in an episode of T steps: first its M agents, then those that none moves.

    Row 0 of an array [T + 1, ...] is the beginning, and row t + 1 follows step t.

    Attributes:
        scene: Name of the scene.
        seconds: Duration of a step.
        shapes: [B] names of the bodies' shapes.
        radius: [B] float64, metres.
        position: [T + 1, B, 3] float32, metres.
        heading: [T + 1, B] float32, radians.
        present: [T + 1, B] bool, whether a body is there.
        actions: [T, M, ...] of the agents, as the batch takes them; ignored where an agent waited for the others.
        state: The rows of the world in what ``get_state()`` returned at the beginning, by part and name.

    Raises:
        ValueError: An array has another shape or dtype, or a value that is not finite.
    """

    scene: str
    seconds: float
    shapes: tuple[str, ...]
    radius: np.ndarray
    position: np.ndarray
    heading: np.ndarray
    present: np.ndarray
    actions: np.ndarray
    state: Mapping[str, Mapping[str, np.ndarray]]

    def __post_init__(self) -> None:
        check_between(1e-3, 3600.0, seconds=self.seconds)
        if not 1 <= len(self.shapes) <= MAX_BODIES:
            raise ValueError(f"{len(self.shapes)} bodies: a world has 1 to {MAX_BODIES}")
        if self.actions.ndim < 2 or not 1 <= self.actions.shape[0] <= MAX_STEPS:
            raise ValueError(
                f"actions are {self.actions.shape}: expected (steps, agents, ...) with 1 to {MAX_STEPS:,} steps"
            )
        if not 1 <= self.num_agents <= self.num_bodies:
            raise ValueError(
                f"{self.num_agents} agents: a world of {self.num_bodies} bodies has 1 to {self.num_bodies}"
            )
        rows = (self.num_steps + 1, self.num_bodies)
        _check("radius", self.radius, np.float64, rows[1:])
        _check("position", self.position, np.float32, (*rows, 3))
        _check("heading", self.heading, np.float32, rows)
        _check("present", self.present, np.bool_, rows)
        _check("actions", self.actions, np.float32 if self.actions.dtype.kind == "f" else np.int64, self.actions.shape)
        for shape, radius in zip(self.shapes, self.radius.tolist(), strict=True):
            check_body(shape, radius)
        self._check_state()

    def __repr__(self) -> str:
        sizes = f"{self.num_steps} steps, {self.num_agents} agents, {self.num_bodies} bodies"
        return f"{type(self).__name__}({self.scene!r}, {sizes})"

    @property
    def num_steps(self) -> int:
        """T."""
        return self.actions.shape[0]

    @property
    def num_agents(self) -> int:
        """M."""
        return self.actions.shape[1]

    @property
    def num_bodies(self) -> int:
        """B."""
        return len(self.shapes)

    @property
    def has_world(self) -> bool:
        """Whether the agents shared a world with others; False for an agent alone."""
        return "worlds" in self.state

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log to a file.

        Raises:
            OSError: It cannot be written.
        """
        arrays = {
            "format": np.array(_FORMAT),
            "scene": np.array(self.scene),
            "seconds": np.array(self.seconds, np.float64),
            "shapes": np.array(self.shapes),
            **{name: getattr(self, name) for name in _ARRAYS},
            **{f"{_STATE}{part}.{name}": one for part, arrays in self.state.items() for name, one in arrays.items()},
        }
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(Path(path), buffer.getbuffer())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> WorldLog:
        """Read a log from a file.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: It is not a log, or a damaged one.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"log '{path}': the file does not exist: check the path")
        try:
            return cls._of(_read_arrays(path))
        except UNREADABLE as error:
            reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"log '{path}' cannot be read ({reason[:_MAX_REASON]}): record it again") from error

    @classmethod
    def _of(cls, arrays: dict[str, np.ndarray]) -> WorldLog:
        """Return the log of the arrays of a file."""
        if _text(arrays["format"]) != _FORMAT:
            raise ValueError(f"its format is not {_FORMAT!r}")
        state: dict[str, dict[str, np.ndarray]] = {"buffers": {}}
        for key, array in arrays.items():
            if key.startswith(_STATE):
                part, _, name = key.removeprefix(_STATE).partition(".")
                state.setdefault(part, {})[name] = array
        shapes = arrays["shapes"]
        _check("seconds", arrays["seconds"], np.float64, ())
        if shapes.ndim != 1 or shapes.dtype.kind != "U":
            raise ValueError(f"shapes are {shapes.dtype} {shapes.shape}: expected names")
        return cls(
            scene=_text(arrays["scene"]),
            seconds=float(arrays["seconds"]),
            shapes=tuple(shapes.tolist()),
            **{name: arrays[name] for name in _ARRAYS},
            state=state,
        )

    def _check_state(self) -> None:
        """Raise ValueError unless the state has rows of numbers for this world, and finite poses."""
        unknown = set(self.state) - set(PARTS)
        missing = {"agents", "episodes", "buffers"} - set(self.state)
        if unknown or missing:
            raise ValueError(f"the state has parts {sorted(self.state)}: expected {', '.join(PARTS)}")
        if not self.has_world and self.num_bodies > 1:
            raise ValueError(f"{self.num_bodies} bodies without the state of their world")
        for part, arrays in self.state.items():
            rows = 1 if part == "worlds" else self.num_agents
            for name, array in arrays.items():
                if array.ndim < 1 or len(array) != rows or array.dtype.kind not in "biuf":
                    raise ValueError(f"state array {part}.{name} is {array.dtype} {array.shape}: expected {rows} rows")
                if part in ("agents", "worlds") and not np.isfinite(array).all():
                    raise ValueError(f"state array {part}.{name} has values that are not finite")


def _check(name: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array has a dtype and a shape, and finite values."""
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} {array.shape}: expected {np.dtype(dtype)} {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite")
    if array.dtype == bool and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{name} has flags other than 0 and 1")


def _text(array: np.ndarray) -> str:
    """Return the string in an array without dimensions."""
    if array.ndim or array.dtype.kind != "U":
        raise ValueError(f"a {array.dtype} array of {array.shape} instead of a string")
    return str(array)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file that ``numpy.savez`` wrote; it takes no more memory than the file has bytes."""
    size = path.stat().st_size
    if size > MAX_LOG_BYTES:
        raise ValueError(f"it has {size:,} bytes: a log has at most {MAX_LOG_BYTES:,}")
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            if len(members) > _MAX_ARRAYS:
                raise ValueError(f"it holds more than {_MAX_ARRAYS:,} arrays")
            are_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
            if not are_stored or sum(member.file_size for member in members) > size:
                raise ValueError("it holds compressed arrays")
            return {
                member.filename.removesuffix(".npy"): array_of_npy(file.read(member), "biufU") for member in members
            }
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is not a .npz file: {error}") from error


@dataclass(frozen=True, eq=False)
class LoggedBodies(MovingBodies):
    """The bodies of a log, in the scene where they were recorded.

    By default they never yield, and agents stop at them. Reactive bodies walk along their logged
    paths, wait where others stop them, and then hurry after where the log has them; doors never yield. After the end of
    the log they stand where it ends, or are absent if they were.

    They begin where they began in the log, even if an agent stands there. To put an agent in the place of a logged one,
    leave that out, and begin its episode: ``LoggedBodies(log, without=(0,))`` and
    ``reset(options={"episode_index": ...})``.

    Attributes:
        log: Their motion.
        reactive: Whether others can stop them.
        without: Columns of the log that are left out.

    Raises:
        ValueError: No body is left, or one that is left out is not in the log.
    """

    log: WorldLog
    reactive: bool = False
    without: tuple[int, ...] = ()

    needs_start = False

    def __post_init__(self) -> None:
        check_flags(reactive=self.reactive)
        if not isinstance(self.log, WorldLog):
            raise ValueError(f"log={self.log!r}: pass a WorldLog, such as WorldLog.load(path)")
        total = self.log.num_bodies
        if np.ndim(self.without) != 1 or not set(self.without) < set(range(total)):
            raise ValueError(f"without={self.without}: pass numbers of logged bodies, 0 to {total - 1}, but not all")

    @cached_property
    def columns(self) -> np.ndarray:
        """The columns of the log, [num] int."""
        return np.array([column for column in range(self.log.num_bodies) if column not in self.without])

    @property
    def num(self) -> int:  # type: ignore[override]  # a constant that depends on the log
        """Number of bodies."""
        return len(self.columns)

    @property
    def shape(self) -> tuple[str, ...]:  # type: ignore[override]
        """Their shapes."""
        return tuple(self.log.shapes[column] for column in self.columns)

    @property
    def radius(self) -> tuple[float, ...]:  # type: ignore[override]
        """Their radii, metres."""
        return tuple(self.log.radius[self.columns].tolist())

    @property
    def is_fixed(self) -> tuple[bool, ...]:  # type: ignore[override]
        """Whether each of them never yields."""
        return tuple(not self.reactive or shape in OF_DOORS for shape in self.shape)

    @cached_property
    def _lengths(self) -> np.ndarray:
        """The lengths [T + 1, num] float64 of the ways walked up to each row, metres on the floor."""
        steps = np.diff(self.log.position[:, self.columns].astype(np.float64), axis=0)
        walked = np.cumsum(np.hypot(steps[..., 0], steps[..., 2]), axis=0)
        return np.concatenate([np.zeros((1, self.num)), walked])

    @cached_property
    def _strides(self) -> np.ndarray:
        """The longest walks [num] float64 of a step, metres."""
        return HURRY * np.diff(self._lengths, axis=0).max(axis=0)

    @cached_property
    def _found(self) -> WeakKeyDictionary[NavMesh, np.ndarray]:
        """The results of ``_polygons`` by navmesh; they depend on the log alone, so that batches may share them."""
        return WeakKeyDictionary()

    def _polygons(self, navmesh: NavMesh) -> np.ndarray:
        """Return the polygons [T + 1, num] int32 under the logged places; ValueError if one is not on the navmesh."""
        if navmesh not in self._found:
            places = self.log.position[:, self.columns]
            walkers = places[:, [shape not in OF_DOORS for shape in self.shape]]
            _, under = navmesh.snap_with_polygon(places.reshape(-1, 3))
            if not navmesh.is_navigable(walkers.reshape(-1, 3)).all() or (under < 0).any():
                raise ValueError(
                    f"{self.log!r} leaves the navmesh: pass the navmesh_settings= with which it was recorded"
                )
            self._found[navmesh] = under.reshape(-1, self.num)
        return self._found[navmesh]

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("log", "reactive", "without")}

    def begin(self, motion: BodyMotion) -> None:
        """Put the bodies where the log begins.

        Raises:
            ValueError: Steps have another duration, a world is in another scene, or the log's places are not on its
                navmesh.
        """
        if not np.isclose(motion.seconds, self.log.seconds):
            raise ValueError(
                f"bodies logged every {self.log.seconds:g} s cannot walk in steps of {motion.seconds:g} s: pass "
                f"actions= of the same duration, such as VelocityActions(time_step={self.log.seconds:g})"
            )
        for slot in np.unique(motion.slots[motion.worlds]).tolist():
            found = motion.scene_name(slot)
            if found != self.log.scene:
                raise ValueError(
                    f"bodies logged in scene {self.log.scene!r} cannot walk in {found!r}: make the batch with the "
                    "scene of the log alone"
                )
            self._polygons(motion.navmesh(slot))
        self._put(motion, np.zeros(len(motion.worlds), np.int64), np.arange(self.num))
        motion.state.num_goals[motion.worlds, motion.columns] = 0

    def move(self, motion: BodyMotion) -> None:
        """Put the bodies where the log has them next, or let them walk there."""
        following = np.minimum(motion.state.num_steps[motion.worlds] + 1, self.log.num_steps)
        self._put(motion, following, np.flatnonzero(self.is_fixed))
        if self.reactive:
            self._walk(motion, following, np.flatnonzero(np.logical_not(self.is_fixed)))

    def _put(self, motion: BodyMotion, rows: np.ndarray, bodies: np.ndarray) -> None:
        """Put ``bodies`` [b] of K worlds where rows [K] of the log have them."""
        state = motion.state
        slots = motion.slots[motion.worlds]
        polygon = np.empty((len(rows), len(bodies)), np.int32)
        for slot in np.unique(slots).tolist():
            here = slots == slot
            polygon[here] = self._polygons(motion.navmesh(slot))[rows[here]][:, bodies]
        place = np.ix_(motion.worlds, motion.columns.start + bodies)
        source = np.ix_(rows, self.columns[bodies])
        state.polygon[place] = polygon
        state.position[place] = self.log.position[source]
        state.heading[place] = self.log.heading[source]
        state.present[place] = self.log.present[source]

    def _walk(self, motion: BodyMotion, following: np.ndarray, bodies: np.ndarray) -> None:
        """Let ``bodies`` [b] of K worlds walk on, at most to rows [K] of the log.

        ``num_goals`` of a body counts the rows of the log that it has passed.
        """
        state = motion.state
        world, body = (grid.ravel() for grid in np.meshgrid(motion.worlds, bodies, indexing="ij"))
        column = body + motion.columns.start
        latest = np.repeat(following, len(bodies))
        position = state.position[world, column]
        passed = self._passed(position, state.num_goals[world, column], body, latest)
        state.num_goals[world, column] = passed
        target = self._target(passed, body, latest)
        source = self.columns[body]
        way = self.log.position[target, source].astype(np.float64) - position
        length = np.minimum(np.hypot(way[:, 0], way[:, 2]), self._strides[body])
        turn = np.arctan2(-way[:, 0], -way[:, 2]) - state.heading[world, column]
        motion.walk(world, column, turn, length)
        state.heading[world, column] = self.log.heading[target, source]
        state.present[world, column] = self.log.present[target, source]

    def _passed(self, position: np.ndarray, passed: np.ndarray, body: np.ndarray, latest: np.ndarray) -> np.ndarray:
        """Return the row [n] of the log, from ``passed`` [n] on, that each body is nearest to.

        Of rows at the same place, in which the body stood still, it is the last.
        """
        ahead = passed[:, None] + np.arange(WINDOW, -1, -1)
        rows = np.minimum(ahead, latest[:, None] - 1)
        way = self.log.position[rows, self.columns[body][:, None]] - position[:, None]
        return rows[np.arange(len(rows)), np.hypot(way[..., 0], way[..., 2]).argmin(axis=1)]

    def _target(self, passed: np.ndarray, body: np.ndarray, latest: np.ndarray) -> np.ndarray:
        """Return the last row [n] of the log, up to ``latest`` [n], within two strides of ``passed`` [n].

        A body may stand beyond the row that it has passed: one stride from there would not be a whole one for it.
        """
        reach = self._lengths[passed, body] + 2 * self._strides[body]
        target = np.empty_like(latest)
        for one in range(self.num):
            mine = body == one
            target[mine] = np.searchsorted(self._lengths[:, one], reach[mine] + 1e-9, side="right") - 1
        return np.clip(target, passed, latest)
