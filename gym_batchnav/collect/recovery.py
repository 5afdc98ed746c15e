"""The environment of a dataset again, from what its description says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import gymnasium

import gym_batchnav


def make_recorded(of: str, recorded: Mapping[str, Any], **keywords: Any) -> gymnasium.Env[Any, Any]:
    """Make a single environment with the keywords with which a dataset was collected.

    Args:
        of: Name of the task, such as ``"PointNav"``.
        recorded: ``DatasetInfo.env``.
        keywords: Further keywords, which take precedence. Pass ``scenes=`` if the scenes were files.

    Raises:
        ValueError: The keywords hold an object that only Python code can describe.
    """
    given = {name: restored(value, name) for name, value in recorded.items()}
    return gymnasium.make(f"BatchNav/{of}-v0", disable_env_checker=True, **given, **keywords).unwrapped


def restored(value: Any, name: str) -> Any:
    """Return a value of ``DatasetInfo.env`` as it was: an object of this package where it names a public class.

    Args:
        value: As JSON has it.
        name: The keyword, for errors.

    Raises:
        ValueError: It is an object of a class that is not public, or whose fields have wrong values.
    """
    if isinstance(value, list):
        return tuple(restored(one, name) for one in value)
    if not isinstance(value, Mapping):
        return value
    inner = {key: restored(one, name) for key, one in value.items() if key != "type"}
    kind = value.get("type")
    if kind is None:
        return inner
    made = getattr(gym_batchnav, kind) if kind in gym_batchnav.__all__ else None
    if not isinstance(made, type) or not is_dataclass(made):
        raise ValueError(f"{name}= was a {kind!r}, which cannot be made again from a dataset: pass {name}= yourself")
    known = {one.name for one in fields(made) if one.init}
    try:
        return made(**{key: one for key, one in inner.items() if key in known})
    except TypeError as error:
        raise ValueError(f"{name}= is no {kind}: {error}") from error
