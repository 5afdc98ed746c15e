"""Checks of numbers, flags and choices that are given as arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeGuard

import numpy as np

MAX_SHOWN = 200  # characters of a value, which may come from a file


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite real number; False for bools."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the range of float64
        return False


def is_count(value: object, most: int = 2**62) -> TypeGuard[int]:
    """Return whether a value is a whole number from 0 to ``most``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def check_finite(**values: float) -> None:
    """Raise ValueError unless every value is a finite number."""
    _check(values, lambda value: True, "a finite number")


def check_positive(**values: float) -> None:
    """Raise ValueError unless every value is a positive finite number."""
    _check(values, lambda value: value > 0, "a positive number")


def check_length(**values: float) -> None:
    """Raise ValueError unless every value is a positive finite number of metres."""
    _check(values, lambda value: value > 0, "a positive number of metres")


def check_not_negative(**values: float) -> None:
    """Raise ValueError unless every value is a finite number of at least 0."""
    _check(values, lambda value: value >= 0, "a number of at least 0")


def check_between(least: float, most: float, **values: float) -> None:
    """Raise ValueError unless every value is a number from ``least`` to ``most``."""
    _check(values, lambda value: least <= value <= most, f"a number from {least:g} to {most:g}")


def check_range(name: str, given: Any, most: float) -> None:
    """Raise ValueError unless a range is two numbers, the second greater, that contain 0 and are at most ``most``."""
    pair = isinstance(given, tuple) and len(given) == 2 and all(map(is_number, given))
    if not pair or not -most <= given[0] <= 0 <= given[1] <= most or given[0] == given[1]:
        raise ValueError(
            f"{name}={given!r}: pass the least and the greatest value as a tuple, with 0 in between, "
            f"from {-most:g} to {most:g}"
        )


def check_counts(**counts: int) -> None:
    """Raise ValueError unless every value is an int of at least 1."""
    _check(counts, lambda value: isinstance(value, (int, np.integer)) and value >= 1, "a whole number of at least 1")


def check_whole(**values: int) -> None:
    """Raise ValueError unless every value is an int of at least 0."""
    _check(values, lambda value: isinstance(value, (int, np.integer)) and value >= 0, "a whole number of at least 0")


def check_seed(**values: int) -> None:
    """Raise ValueError unless every value is an int from 0 to 2**32 - 1."""
    wanted = "a whole number from 0 to 2**32 - 1"
    _check(values, lambda value: isinstance(value, (int, np.integer)) and 0 <= value < 2**32, wanted)


def check_flags(**flags: bool) -> None:
    """Raise ValueError unless every value is True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise ValueError(f"{name}={flag!r}: pass True or False")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        given = f"{value!r:.{MAX_SHOWN}}"
        raise ValueError(f"{name}={given}: choose one of {', '.join(map(repr, choices))}")


def unwrap_numpy(values: Any) -> None:
    """Convert the NumPy scalars of a frozen dataclass, so that JSON holds them and equal values look the same."""
    for one in fields(values):
        value = getattr(values, one.name)
        if isinstance(value, np.generic):
            object.__setattr__(values, one.name, value.item())


def _check(values: Mapping[str, float], fits: Callable[[float], bool], wanted: str) -> None:
    """Raise ValueError, which names what is wanted, unless every value is a finite number that fits."""
    for name, value in values.items():
        if not (is_number(value) and fits(value)):
            raise ValueError(f"{name}={value!r}: pass {wanted}")
