"""Logs: what all bodies of a world did in an episode, in a file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from gym_batchnav.system.arrays import UNREADABLE, array_of_npy
from gym_batchnav.system.numbers import check_between
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.worlds.api import MAX_BODIES, check_body

MAX_LOG_BYTES = 2**28
MAX_STEPS = 10**6
PARTS = ("agents", "episodes", "memory", "worlds")  # of a state
_MAX_ARRAYS = 1000
_STATE = "state."  # before the names of the arrays of the state, in a file
_FORMAT = "gym_batchnav world log 1"
_MAX_REASON = 300  # characters of a reason, which may quote the file


@dataclass(frozen=True, repr=False, eq=False)
class WorldLog:
    """What the B bodies of a world did in an episode of T steps: first its M agents, then those that no policy moves.

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
        """Raise ValueError unless all arrays fit each other."""
        check_between(1e-3, 3600.0, seconds=self.seconds)
        if not 1 <= len(self.shapes) <= MAX_BODIES:
            raise ValueError(f"{len(self.shapes)} bodies: a world has 1 to {MAX_BODIES}")
        if self.actions.ndim < 2 or not 1 <= self.actions.shape[0] <= MAX_STEPS:
            raise ValueError(f"actions are {self.actions.shape}: expected (steps, agents, ...)")
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
        """Return one line with the scene and the sizes."""
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
            **{name: getattr(self, name) for name in ("radius", "position", "heading", "present", "actions")},
            **{f"{_STATE}{part}.{name}": one for part, arrays in self.state.items() for name, one in arrays.items()},
        }
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(Path(path), buffer.getbuffer())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> WorldLog:
        """Read a log from a file.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It holds no log, or a damaged one.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"log '{path}': there is no such file")
        try:
            return cls._of(_read_arrays(path))
        except UNREADABLE as error:
            reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"log '{path}' cannot be read: {reason[:_MAX_REASON]}") from error

    @classmethod
    def _of(cls, arrays: dict[str, np.ndarray]) -> WorldLog:
        """Return the log of the arrays of a file."""
        if _text(arrays["format"]) != _FORMAT:
            raise ValueError(f"it is no {_FORMAT!r}")
        state: dict[str, dict[str, np.ndarray]] = {"memory": {}}
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
            radius=arrays["radius"],
            position=arrays["position"],
            heading=arrays["heading"],
            present=arrays["present"],
            actions=arrays["actions"],
            state=state,
        )

    def _check_state(self) -> None:
        """Raise ValueError unless the state has rows of numbers for this world, and finite poses."""
        unknown = set(self.state) - set(PARTS)
        missing = {"agents", "episodes", "memory"} - set(self.state)
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
    """Return the text of an array without dimensions."""
    if array.ndim or array.dtype.kind != "U":
        raise ValueError(f"a {array.dtype} array of {array.shape} in the place of a text")
    return str(array)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file that ``numpy.savez`` wrote; no more memory is taken than the file has."""
    size = path.stat().st_size
    if size > MAX_LOG_BYTES:
        raise ValueError(f"it has {size} bytes: a log has at most {MAX_LOG_BYTES}")
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            if len(members) > _MAX_ARRAYS or sum(member.file_size for member in members) > size:
                raise ValueError("it holds too many arrays, or compressed ones")
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("it holds compressed arrays")
            return {
                member.filename.removesuffix(".npy"): array_of_npy(file.read(member), "biufU") for member in members
            }
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is no .npz file: {error}") from error
