"""Checkpoints of a training run, torch files. Loading a checkpoint executes no code from it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from gym_batchnav.system.storage import write_atomically

FORMAT = "gym_batchnav checkpoint 4"  # changes with what the state of a run holds, and with the layout of the file
_KEPT = 2

T = TypeVar("T")
_ARRAY = "numpy array"  # the key that marks an array among tensors


class DamagedCheckpoint(ValueError):
    """The error of a file that cannot be read as a checkpoint."""


def save(path: Path, state: Any, about: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically, with a description as plain values.

    The state are nested dicts, lists and tuples of tensors, arrays, strings, numbers, bools and None; TypeError for
    others.
    """
    _write(path, _packed(state), dict(about))


def load(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the state and the description of a checkpoint; tensors are on the CPU.

    Raises:
        ValueError: The file is not a checkpoint, or, as DamagedCheckpoint, is damaged.
        FileNotFoundError: The file does not exist.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': check the path")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        form = stored.get("format") if isinstance(stored, dict) else None
        found = (_unpacked(stored["state"]), dict(stored["about"])) if form == FORMAT else None
    except Exception as error:  # damaged pickles make torch raise all kinds of errors
        raise DamagedCheckpoint(f"'{path}' is damaged: {type(error).__name__}: {error}") from error
    if found is None:
        raise ValueError(f"the format of '{path}' is {form!r}, not {FORMAT!r}: pass another out=")
    return found


class Checkpoints:
    """The last two checkpoints of a worker in the folder of a run, which are written in the background.

    Each worker writes its own, so a run that is killed may leave one that other workers lack. If no worker begins one
    before all have written the previous one, they always have one in common.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder = folder
        self._rank = rank
        self._executor = ThreadPoolExecutor(1, "checkpoint writer")
        self._writing: Future[None] | None = None

    def path(self, frames: int) -> Path:
        """Return the path of the checkpoint after ``frames`` frames of all workers."""
        return self._folder / f"checkpoint_{frames}_{self._rank}.pt"

    def frames(self) -> list[int]:
        """Return the numbers of frames of the checkpoints in the folder, ascending."""
        pattern = re.compile(rf"checkpoint_(\d+)_{self._rank}\.pt")
        found = (pattern.fullmatch(path.name) for path in self._folder.glob("checkpoint_*.pt"))
        return sorted(int(match[1]) for match in found if match)

    def newest(
        self, gather: Callable[[Any], list[Any]], read: Callable[[Path], T], note: Callable[[str], None]
    ) -> T | None:
        """Read the newest checkpoint that all workers have; return None if that is the beginning of the run.

        ``gather`` returns the values of all workers. If a checkpoint is damaged, ``note`` gets a message, and the one
        before it is read.

        Raises:
            ValueError: The workers have none in common, or all that they have are damaged.
        """
        own = self.frames()
        kept = set(own) if len(own) >= _KEPT else {0, *own}  # a worker with fewer has deleted none
        damage: list[str] = []
        while True:
            found = gather(kept)
            common = set.intersection(*found)
            frames = max(common, default=0)
            if not common or (damage and not frames):
                frames_found = ", ".join(str(sorted(one)) for one in found)
                parted = f"'{self._folder}' has no checkpoint of all workers (after frames, by worker: {frames_found})"
                raise ValueError(f"{damage[0] if damage else parted}: pass another out=")
            state = None
            error = ""
            try:
                state = read(self.path(frames)) if frames else None
            except DamagedCheckpoint as damaged:
                error = str(damaged)
            errors = [one for one in gather(error) if one]
            if not errors:
                return state
            damage += errors
            kept.discard(frames)
            note(f"{errors[0]}: continuing with the one before it")

    def save(self, frames: int, state: Any, about: Mapping[str, Any]) -> None:
        """Copy the state and write it in a thread, then delete all but the last two; call ``wait`` before."""
        self._writing = self._executor.submit(self._write, frames, _packed(state), dict(about))

    def delete(self, frames: Iterable[int]) -> None:
        """Delete some checkpoints."""
        for number in frames:
            self.path(number).unlink(missing_ok=True)

    def wait(self) -> None:
        """Wait until the last checkpoint is written; OSError if it could not be."""
        writing = self._writing
        self._writing = None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Wait for the current write and end the thread; idempotent."""
        self._executor.shutdown()

    def _write(self, frames: int, packed: Any, about: dict[str, Any]) -> None:
        _write(self.path(frames), packed, about)
        self.delete(self.frames()[:-_KEPT])


def _write(path: Path, packed: Any, about: dict[str, Any]) -> None:
    file = io.BytesIO()
    torch.save({"format": FORMAT, "about": about, "state": packed}, file)
    write_atomically(path, file.getvalue())


def _packed(value: Any) -> Any:
    """Copy a state; arrays become marked tensors, NumPy's scalars become plain numbers."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        # Stored as bytes, because older versions of torch lack some unsigned dtypes.
        data = np.frombuffer(value.tobytes(), np.uint8)
        return {_ARRAY: torch.from_numpy(data.copy()), "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, (list, tuple)):
        return type(value)(_packed(one) for one in value)
    if isinstance(value, Mapping):
        return {key: _packed(one) for key, one in value.items()}
    raise TypeError(f"cannot save a {type(value).__name__}: pass tensors, arrays and plain values")


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return np.frombuffer(value[_ARRAY].numpy().tobytes(), value["dtype"]).reshape(value["shape"]).copy()
        return {key: _unpacked(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_unpacked(one) for one in value)
    return value
