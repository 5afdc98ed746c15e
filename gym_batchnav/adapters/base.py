"""The base class of all adapters: it makes the batch that a library needs, and checks batches that are passed to it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_ID = "BatchNav/PointNav-v0"


class Adapter:
    """Base class of adapters, whose constructors take a batch as their first argument.

    Attributes:
        _library: The library's name, for messages.
        _mode: The autoreset mode in which the library counts episodes correctly.
        _size: The argument of ``make`` that gives the size of the batch, for messages.
    """

    _library: ClassVar[str]
    _mode: ClassVar[AutoresetMode] = AutoresetMode.SAME_STEP
    _size: ClassVar[str] = "num_envs"

    @classmethod
    def make(cls, num_envs: int, id: str = DEFAULT_ID, **keywords: Any) -> Self:
        """Make a batch in the autoreset mode that the library needs, and its adapter.

        Args:
            num_envs: N, the number of environments.
            id: An id that Gymnasium knows; ``"module:id"`` imports the module first.
            keywords: Those of the adapter's constructor, and of BatchNavEnv except ``autoreset_mode``.

        Raises:
            ValueError: A keyword is wrong, or one of them is ``autoreset_mode``.
        """
        own = {name: keywords.pop(name) for name in inspect.signature(cls).parameters if name in keywords}
        new: Any = cls
        return new(cls._make_batch(num_envs, id, **keywords), **own)

    @classmethod
    def _make_batch(cls, num_envs: int, id: str, **keywords: Any) -> VectorEnv:
        """Make the batch of ``make``."""
        name = cls._mode.name.lower()
        if "autoreset_mode" in keywords:
            raise ValueError(
                f"{cls.__name__}.make always makes a batch with autoreset_mode={name!r}: leave out autoreset_mode="
            )
        return gymnasium.make_vec(id, num_envs=num_envs, autoreset_mode=name, **keywords)

    @classmethod
    def _check_batch(cls, env: Any) -> None:
        """Raise ValueError unless ``env`` is a vector environment in the autoreset mode that the library needs."""
        name = cls._mode.name.lower()
        made_as = env.spec.id if isinstance(env, VectorEnv) and env.spec is not None else DEFAULT_ID
        remedy = (
            f"use {cls.__name__}.make({cls._size}=...) or "
            f"gymnasium.make_vec({made_as!r}, num_envs=..., autoreset_mode={name!r})"
        )
        if not isinstance(env, VectorEnv):
            raise ValueError(f"{cls.__name__} takes a batch, not a {type(env).__name__}: {remedy}")
        found = env.metadata.get("autoreset_mode")
        if found != cls._mode:
            given = found.name.lower() if isinstance(found, AutoresetMode) else found
            raise ValueError(f"{cls._library} needs autoreset_mode={name!r}, but this batch has {given!r}: {remedy}")


def to_dicts(info: dict[str, Any], indices: np.ndarray) -> list[dict[str, Any]]:
    """Split a batch's masked infos into one dict of plain numbers per environment of ``indices`` [M]."""
    dicts: list[dict[str, Any]] = [{} for _ in indices]
    for name, values in info.items():
        if name.startswith("_"):
            continue
        column = to_dicts(values, indices) if isinstance(values, dict) else values[indices].tolist()
        valid = info[f"_{name}"][indices].tolist() if f"_{name}" in info else [True] * len(indices)
        for entry, value, is_valid in zip(dicts, column, valid, strict=True):
            if is_valid:
                entry[name] = value
    return dicts
