"""Checkpoints of a training run, one torch file each. Loading a checkpoint executes no code from it."""

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
    """Write a checkpoint atomically.

    Args:
        path: The file.
        state: Nested dicts, lists and tuples of tensors, arrays, strings, numbers, bools and None.
        about: Description as plain values; ``load`` returns it.

    Raises:
        TypeError: The state contains another type.
        OSError: The file cannot be written.
    """
    _write(path, _packed(state), dict(about))


def load(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the state and the description of a checkpoint; tensors are on the CPU.

    Raises:
        ValueError: The file is not a checkpoint, or is damaged.
        FileNotFoundError: The file does not exist.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': check the path")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        form = stored.get("format") if isinstance(stored, dict) else None
        found = (_unpacked(stored["state"]), dict(stored["about"])) if form == FORMAT else None
    except Exception as error:  # damaged pickles make torch raise all kinds of errors
        raise ValueError(f"'{path}' is damaged: {type(error).__name__}: {error}") from error
    if found is None:
        raise ValueError(f"the format of '{path}' is {form!r}, not {FORMAT!r}: pass another out=")
    return found


class CheckpointWriter:
    """Writes checkpoints in the background: the state is copied at once, and a thread writes it."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "checkpoint writer")
        self._writing: Future[None] | None = None

    def save(self, path: Path, state: Any, about: Mapping[str, Any]) -> None:
        """Copy the state and write it like ``save`` does, in a thread; raise the error of the previous write."""
        self.wait()
        self._writing = self._executor.submit(_write, path, _packed(state), dict(about))

    def wait(self) -> None:
        """Wait until the last checkpoint is written.

        Raises:
            OSError: It could not be written.
        """
        writing = self._writing
        self._writing = None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Wait for the current write and end the thread; idempotent."""
        self._executor.shutdown()


def _write(path: Path, packed: Any, about: dict[str, Any]) -> None:
    """Write a packed state."""
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
    """Return the state that ``_packed`` copied."""
    if isinstance(value, dict):
        if _ARRAY in value:
            return np.frombuffer(value[_ARRAY].numpy().tobytes(), value["dtype"]).reshape(value["shape"]).copy()
        return {key: _unpacked(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_unpacked(one) for one in value)
    return value
