"""Records: tasks, sensors and other objects as plain values for a file, and known objects made from these again.

Spaces of readings have records, too. ``checked_value`` checks plain values by the types of a dataclass.
"""

from __future__ import annotations

import math
import os
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space

from gym_batchnav.actions.noise import LoCoBotNoise
from gym_batchnav.episodes.samplers import PointEpisodes
from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import LENSES
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.noise.depth import RedwoodNoise
from gym_batchnav.noise.rgb import ColorJitter, GaussianNoise, PoissonNoise, SaltAndPepperNoise, SpeckleNoise
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.task.api import Sensor
from gym_batchnav.task.sensors import GPS, Compass, Heading, PointGoal, StaticPointGoal, WalkScan

MAX_AXES = 3  # of a sensor's reading
NONE = "none"  # TOML has no null
CLASS = "class"  # key of an object's class in its record
# Classes of which objects are made from records; they are named without their modules.
_CLASSES: tuple[type[Any], ...] = (
    Camera, *LENSES, PointGoal, StaticPointGoal, LoCoBotNoise, GaussianNoise, SpeckleNoise, SaltAndPepperNoise,
    PoissonNoise, ColorJitter, RedwoodNoise, SensorTiming, GPS, Compass, Heading, WalkScan, MapPath, PointEpisodes,
)  # fmt: skip
KNOWN = {one.__name__: one for one in _CLASSES}
# Sensors that settings may name instead of an image, with the default values of their fields.
NAMED_SENSORS: dict[str, type[Sensor]] = {one.name: one for one in (GPS, Compass, Heading, WalkScan, MapPath)}


def sensors_of(names: Sequence[str]) -> tuple[str | Sensor, ...]:
    """Return what an environment takes as ``sensors=`` for names of images and of known sensors, such as map_path."""
    return tuple(NAMED_SENSORS[name]() if name in NAMED_SENSORS else name for name in names)


def record_of(value: object) -> Any:
    """Return a value as plain values: numbers, strings and None as they are, tuples as lists, objects as dicts.

    The dict of an object has its class and, if it is a dataclass, its fields. Classes that are not in ``KNOWN`` are
    named ``module:name``.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # which equals itself, and is JSON
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [record_of(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): record_of(one) for name, one in value.items()}
    return {CLASS: name_of(type(value)), **fields_of(value)}


def fields_of(value: object) -> dict[str, Any]:
    """Return the records of the fields of a dataclass, by name; none for other objects."""
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    return {one.name: record_of(getattr(value, one.name)) for one in fields(value) if one.init}


def name_of(kind: type) -> str:
    """Return the name of a class in records."""
    is_known = KNOWN.get(kind.__name__) is kind
    return kind.__name__ if is_known else f"{kind.__module__}:{kind.__qualname__}"


def value_of(record: Any) -> Any:
    """Return the value that ``record_of`` described; lists become tuples.

    Raises:
        ValueError: It is an object of a class that is not in ``KNOWN``, or its fields are wrong.
        TypeError: Its fields are not those of its class.
    """
    if isinstance(record, list):
        return tuple(value_of(one) for one in record)
    if not isinstance(record, dict):
        return record
    name = record.get(CLASS)
    if not isinstance(name, str) or name not in KNOWN:
        raise ValueError(f"class {name!r} is not allowed in a file: choose one of {', '.join(KNOWN)}")
    if record.get("distortion") is not None:
        raise ValueError(f"{name}: distortion= names another file, which is not read: leave distortion out")
    return KNOWN[name](**{key: value_of(one) for key, one in record.items() if key != CLASS})


def is_known(record: Any) -> bool:
    """Return whether all objects of a record are of classes in ``KNOWN``."""
    if isinstance(record, list):
        return all(map(is_known, record))
    return not isinstance(record, dict) or (record.get(CLASS) in KNOWN and all(map(is_known, record.values())))


def is_object(value: object) -> bool:
    """Return whether a value is the record of an object."""
    return isinstance(value, dict) and isinstance(value.get(CLASS), str) and is_record(value)


def is_record(value: object) -> bool:
    """Return whether a value consists of finite numbers, bools, strings, None, lists and dicts by name."""
    if isinstance(value, list):
        return all(map(is_record, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_record(one) for name, one in value.items())
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))


def checked_value(name: str, value: Any, hint: Any) -> Any:
    """Convert lists to tuples, whole numbers to floats and ``"none"`` to None; ValueError for another type."""
    choices = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for choice in sorted(choices, key=lambda one: one is not types.NoneType):  # first, since "none" is a string, too
        found = _as_type(value, choice)
        if found is not _UNFIT:
            return found
    names = " or ".join(getattr(one, "__name__", str(one)).replace("NoneType", f'"{NONE}"') for one in choices)
    example = f""", such as ["a", "b"] (in a shell '{name}=["a", "b"]')"""
    of_text = any(typing.get_args(one)[:1] == (str,) for one in choices)
    names = names.replace("tuple", f"list{example if of_text else ''}")  # as TOML and JSON have it
    raise ValueError(f"{name}={repr(value)[:200]}: expected {names}")


_UNFIT = object()


def _as_type(value: Any, hint: Any) -> Any:
    """Return a value as a type, or ``_UNFIT``."""
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if hint is Any:
        return value
    if hint is types.NoneType:
        return None if value is None or value == NONE else _UNFIT
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return _UNFIT
        kinds = [parts[0]] * len(value) if parts[-1] is ... else list(parts)
        items = [_as_type(one, kind) for one, kind in zip(value, kinds, strict=False)]
        return tuple(items) if len(kinds) == len(value) and _UNFIT not in items else _UNFIT
    if origin in (dict, Mapping):
        fits = isinstance(value, dict) and all(
            isinstance(name, str) and _as_type(one, parts[1]) is not _UNFIT for name, one in value.items()
        )
        return value if fits else _UNFIT
    if hint is float and type(value) is int:
        return float(value) if abs(value) <= sys.float_info.max else _UNFIT
    if hint is Path and isinstance(value, str):
        return Path(value)
    return value if type(value) is hint else _UNFIT  # a bool is an integer to isinstance


def space_record(space: Space[Any]) -> dict[str, Any]:
    """Return the record of a space; empty for numbers [K], which their size describes, and if no policy can read it."""
    if not isinstance(space, Box) or not 0 < len(space.shape) <= MAX_AXES:
        return {}
    if np.issubdtype(space.dtype, np.integer):
        return {"shape": list(space.shape), "first": int(space.low.min()), "last": int(space.high.max())}
    return {"shape": list(space.shape)} if len(space.shape) > 1 else {}


def space_of(record: dict[str, Any]) -> Box:
    """Return the space of a record."""
    shape = tuple(record["shape"])
    if "first" not in record:
        return Box(-np.inf, np.inf, shape)
    return Box(record["first"], record["last"], shape, np.int64)


def is_space(record: object) -> bool:
    """Return whether a value is the record of a space."""
    if not isinstance(record, dict) or record.keys() not in ({"shape"}, {"shape", "first", "last"}):
        return False
    shape = record["shape"]
    bounds = [record[name] for name in ("first", "last") if name in record]
    are_whole = isinstance(shape, list) and all(type(one) is int for one in (*shape, *bounds))
    return are_whole and 0 < len(shape) <= MAX_AXES and min(shape) > 0 and bounds == sorted(bounds)
