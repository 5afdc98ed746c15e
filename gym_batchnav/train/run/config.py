"""Run files: settings as TOML, or as the run.json of another run, and single settings by dotted names."""

from __future__ import annotations

import difflib
import json
import sys
import types
import typing
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gym_batchnav.evaluation.records import CLASS, value_of
from gym_batchnav.evaluation.world import TASKS
from gym_batchnav.system.nested import flattened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 2**20  # of a run file
NONE = "none"  # TOML has no null

Settings = TypeVar("Settings")


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a run file by dotted names, such as ``ppo.gamma``.

    Args:
        path: A TOML file whose tables are nested settings, or the ``run.json`` of a run.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is too large, or neither TOML nor the file of a run.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no run file '{path}': check the path")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"'{path}' has {size:,} bytes: a run file has at most {MAX_BYTES:,}")
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            stored = json.loads(text)["settings"]
            changes = stored.pop("changes", {})
            return {name: value for name, value in {**stored, **changes}.items() if value is not None}
        return flattened(tomllib.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        kind = "the run.json of a run" if path.suffix == ".json" else "TOML"
        raise ValueError(f"'{path}' is not {kind}: {error}") from error


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return the name and the value of an assignment such as ``ppo.gamma=0.995``.

    The value is one of TOML; a word that is none, such as ``cuda``, is a string.

    Raises:
        ValueError: There is no ``=``, or no name before it.
    """
    name, sign, value = text.partition("=")
    name = name.strip()
    if not sign or not name:
        raise ValueError(f"{text!r} assigns nothing: write name=value, such as ppo.gamma=0.995")
    try:
        return name, tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value.strip()


def with_changes(settings: Settings, changes: Mapping[str, Any], prefix: str = "") -> Settings:
    """Return a dataclass with other values of some fields.

    Args:
        settings: The dataclass.
        changes: Values by name; the names of nested fields are joined by dots. ``class`` beside the fields of an object
            makes one of another class, such as ``task.class``.
        prefix: The name of the dataclass itself, with a dot, for errors.

    Raises:
        ValueError: There is no such field, or the value is not one of its type.
    """
    known = [field.name for field in fields(settings) if field.init]  # type: ignore[arg-type]
    hints = typing.get_type_hints(type(settings))
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        if first not in known:
            close = difflib.get_close_matches(first, known, 1)
            remedy = f"did you mean {prefix}{close[0]}?" if close else f"choose one of {', '.join(known)}"
            raise ValueError(f"there is no setting {prefix}{first}: {remedy}")
        if rest:
            inner[first][rest] = value
        else:
            own[first] = checked_value(f"{prefix}{first}", value, hints[first])
    for first, nested in inner.items():
        current = getattr(settings, first)
        if current is None:  # such as a camera without jitter
            makers: list[Any] = [kind for kind in typing.get_args(hints[first]) if is_dataclass(kind)]
            current = makers[0]() if makers else None
        own[first] = _nested(current, nested, f"{prefix}{first}")
    return replace(settings, **own)  # type: ignore[type-var]


def _nested(current: Any, changes: dict[str, Any], name: str) -> Any:
    """Return an object with other values of some fields, or an object of another class."""
    if CLASS not in changes:
        if not is_dataclass(current) or isinstance(current, type):
            raise ValueError(f"{name}={current!r} has no fields: pass its value, or {name}.{CLASS}")
        return with_changes(current, changes, f"{name}.")
    kind = changes.pop(CLASS)
    if isinstance(kind, str) and kind in TASKS:
        return with_changes(TASKS[kind](), changes, f"{name}.")
    if isinstance(current, tuple(TASKS.values())):
        raise ValueError(f"{name}.{CLASS}={kind!r}: choose one of {', '.join(TASKS)}")
    try:
        return value_of({CLASS: kind, **changes})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error


def checked_value(name: str, value: Any, hint: Any) -> Any:
    """Return a value as a type: lists as tuples, whole numbers as floats, ``"none"`` as None.

    Raises:
        ValueError: It is of another type.
    """
    choices = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for choice in choices:
        found = _as_type(value, choice)
        if found is not _UNFIT:
            return found
    names = " or ".join(getattr(one, "__name__", str(one)).replace("NoneType", f'"{NONE}"') for one in choices)
    raise ValueError(f"{name}={value!r}: expected {names}")


_UNFIT = object()


def _as_type(value: Any, hint: Any) -> Any:
    """Return a value as a type, or ``_UNFIT``."""
    if hint is types.NoneType:
        return None if value is None or value == NONE else _UNFIT
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            return _UNFIT
        parts = typing.get_args(hint)
        kinds = [parts[0]] * len(value) if parts[-1] is ... else list(parts)
        items = [_as_type(one, kind) for one, kind in zip(value, kinds, strict=False)]
        return tuple(items) if len(kinds) == len(value) and _UNFIT not in items else _UNFIT
    if hint is float and type(value) is int:
        return float(value)
    return value if isinstance(hint, type) and type(value) is hint else _UNFIT
