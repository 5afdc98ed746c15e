"""Checkpoints of a training: its state in one file of torch; loading one executes nothing."""

from __future__ import annotations

import io
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gym_batchnav.system.storage import write_atomically

FORMAT = "gym_batchnav checkpoint 2"
_ARRAY = "numpy array"  # the key that marks an array among tensors


def save(path: Path, state: Any, about: Mapping[str, Any]) -> None:
    """Write a checkpoint; the file appears whole or not at all.

    Args:
        path: The file.
        state: Nested dicts, lists and tuples of tensors, arrays, strings, numbers, bools and None.
        about: Description as plain values; ``load`` returns it.

    Raises:
        TypeError: the state holds something else.
        OSError: the file cannot be written.
    """
    _write(path, _packed(state), dict(about))


def load(path: Path) -> tuple[Any, dict[str, Any]]:
    """The state and the description that ``save`` was given; tensors are on the CPU.

    Raises:
        ValueError: it is no checkpoint, or a damaged one.
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': check the path")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        form = stored.get("format") if isinstance(stored, dict) else None
        found = (_unpacked(stored["state"]), dict(stored["about"])) if form == FORMAT else None
    except Exception as error:  # torch raises anything on damaged pickles, such as IndexError
        raise ValueError(f"'{path}' is damaged: {type(error).__name__}: {error}") from error
    if found is None:
        raise ValueError(f"'{path}' is no {FORMAT} but {form!r}: pass another file of its folder")
    return found


class CheckpointWriter:
    """Writes checkpoints beside the training: the state is copied at once, a thread writes it."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "checkpoint writer")
        self._writing: Future[None] | None = None

    def save(self, path: Path, state: Any, about: Mapping[str, Any]) -> None:
        """Do as the function ``save``, later; an error of the checkpoint before is raised here."""
        self.wait()
        self._writing = self._executor.submit(_write, path, _packed(state), dict(about))

    def wait(self) -> None:
        """Return when the last checkpoint is on the disk.

        Raises:
            OSError: it could not be written.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Let the thread end after the checkpoint that it is writing; idempotent."""
        self._executor.shutdown()


def _write(path: Path, packed: Any, about: dict[str, Any]) -> None:
    """Write a packed state."""
    file = io.BytesIO()
    torch.save({"format": FORMAT, "about": about, "state": packed}, file)
    write_atomically(path, file.getvalue())


def _packed(value: Any) -> Any:
    """A copy of a state in which arrays are marked tensors, and NumPy's scalars plain numbers."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        # As bytes, since older versions of torch have no unsigned integers.
        data = np.frombuffer(value.tobytes(), np.uint8)
        return {_ARRAY: torch.from_numpy(data.copy()), "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, (list, tuple)):
        return type(value)(_packed(one) for one in value)
    if isinstance(value, Mapping):
        return {key: _packed(one) for key, one in value.items()}
    raise TypeError(f"a {type(value).__name__} cannot be saved: pass tensors, arrays and plain values")


def _unpacked(value: Any) -> Any:
    """The state that ``_packed`` copied."""
    if isinstance(value, dict):
        if _ARRAY in value:
            return np.frombuffer(value[_ARRAY].numpy().tobytes(), value["dtype"]).reshape(value["shape"]).copy()
        return {key: _unpacked(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_unpacked(one) for one in value)
    return value
