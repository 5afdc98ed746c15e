"""Checkpoints: a nested state in one safetensors file, whose header holds its tree as JSON; nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as pack_arrays

from gym_batchnav.system.storage import write_atomically

FORMAT = "gym_batchnav checkpoint 1"
MAX_BYTES = 8 * 2**30

Arrays = dict[str, np.ndarray]


def save(path: Path, state: Any, about: Mapping[str, Any]) -> None:
    """Write a checkpoint; the file appears whole or not at all.

    Args:
        path: The file.
        state: Nested dicts, lists and tuples of tensors, arrays, strings, numbers, bools and None.
        about: What it is of, as plain values: ``load`` returns it.

    Raises:
        TypeError: the state holds something else.
        OSError: the file cannot be written.
    """
    write_file(path, *split(state), FORMAT, about)


def load(path: Path) -> tuple[Any, dict[str, Any]]:
    """The state and the description that ``save`` was given; tensors are on the CPU.

    Raises:
        ValueError: it is no checkpoint, or a damaged one.
        FileNotFoundError: there is no such file.
    """
    arrays, tree, about = read_file(path, FORMAT, MAX_BYTES)
    try:
        return join(tree, arrays), about
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged: {error!r}") from error


class CheckpointWriter:
    """Writes checkpoints beside the training: the state is copied at once, a thread does the rest."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "checkpoint writer")
        self._writing: Future[None] | None = None

    def save(self, path: Path, state: Any, about: Mapping[str, Any]) -> None:
        """``save`` as the function does, later; the error of the one before, if it failed, is raised here."""
        self.wait()
        self._writing = self._executor.submit(write_file, path, *split(state), FORMAT, dict(about))

    def wait(self) -> None:
        """Return when what was saved stands on the disk.

        Raises:
            OSError: it could not be written.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Let the thread end after what it is writing; safe twice."""
        self._executor.shutdown()


def split(state: Any) -> tuple[Arrays, Any]:
    """A nested state as copies of its arrays, by name, and a tree of JSON that refers to them.

    Plain values stand in the tree as they are; all else is an object of one key: ``{"tensor": name}``,
    ``{"array": name}``, ``{"list": [...]}``, ``{"tuple": [...]}`` or ``{"dict": [[key, value], ...]}``.
    """
    arrays: Arrays = {}

    def node(value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (torch.Tensor, np.ndarray)):
            name = str(len(arrays))
            kind = "array" if isinstance(value, np.ndarray) else "tensor"
            given = value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
            arrays[name] = np.array(given, order="C")
            return {kind: name}
        if isinstance(value, (list, tuple)):
            return {type(value).__name__: [node(one) for one in value]}
        if isinstance(value, Mapping):
            return {"dict": [[node(key), node(one)] for key, one in value.items()]}
        raise TypeError(f"a {type(value).__name__} cannot be saved: give tensors, arrays and plain values")

    tree = node(state)
    return arrays, tree


def join(tree: Any, arrays: Arrays) -> Any:
    """The nested state that ``split`` took apart."""
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        return arrays[content]
    if kind == "tensor":
        return torch.from_numpy(arrays[content])
    if kind == "list":
        return [join(one, arrays) for one in content]
    if kind == "tuple":
        return tuple(join(one, arrays) for one in content)
    if kind == "dict":
        return {join(key, arrays): join(one, arrays) for key, one in content}
    raise ValueError(f"unknown node {kind!r}")


def write_file(path: Path, arrays: Arrays, tree: Any, form: str, about: Mapping[str, Any]) -> None:
    """Write arrays as safetensors, with a tree and a description as JSON in the header."""
    header = {"format": form, "tree": json.dumps(tree), "about": json.dumps(dict(about))}
    write_atomically(path, pack_arrays(arrays, header))


def read_file(path: Path, form: str, max_bytes: int) -> tuple[Arrays, Any, dict[str, Any]]:
    """Arrays, tree and description of a file that ``write_file`` wrote.

    Raises:
        ValueError: it is too large, of another form or damaged.
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': mend the path")
    if path.stat().st_size > max_bytes:
        raise ValueError(f"'{path}' has more than {max_bytes:,} bytes: that is no {form}")
    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
            if header.get("format") != form:
                raise ValueError(f"'{path}' is no {form} but {header.get('format')!r}: give another file of its folder")
            arrays = {name: file.get_tensor(name) for name in file.keys()}
            tree, about = json.loads(header["tree"]), json.loads(header["about"])
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged: {error}") from error
    if not isinstance(about, dict):
        raise ValueError(f"'{path}' is damaged: its description is no JSON object")
    return arrays, tree, about
