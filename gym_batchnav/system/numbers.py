"""Checks of numbers that are given as arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def check_finite(**values: float) -> None:
    """Raise ValueError unless every value is a finite number."""
    for name, value in values.items():
        if not _is_number(value):
            raise ValueError(f"{name}={value!r}: pass a finite number")


def check_positive(**values: float) -> None:
    """Raise ValueError unless every value is a positive finite number."""
    for name, value in values.items():
        if not (_is_number(value) and value > 0):
            raise ValueError(f"{name}={value!r}: pass a positive number")


def check_not_negative(**values: float) -> None:
    """Raise ValueError unless every value is a finite number of at least 0."""
    for name, value in values.items():
        if not (_is_number(value) and value >= 0):
            raise ValueError(f"{name}={value!r}: pass a number of at least 0")


def check_between(least: float, most: float, **values: float) -> None:
    """Raise ValueError unless every value is a number from ``least`` to ``most``."""
    for name, value in values.items():
        if not (_is_number(value) and least <= value <= most):
            raise ValueError(f"{name}={value!r}: pass a number from {least:g} to {most:g}")


def check_range(name: str, given: Any, most: float) -> None:
    """Raise ValueError unless a range is two numbers, the second greater, that contain 0 and are at most ``most``."""
    pair = isinstance(given, tuple) and len(given) == 2 and all(map(_is_number, given))
    if not pair or not -most <= given[0] <= 0 <= given[1] <= most or given[0] == given[1]:
        raise ValueError(
            f"{name}={given!r}: pass the least and the greatest value as a tuple, with 0 in between, "
            f"from {-most:g} to {most:g}"
        )


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and math.isfinite(value)
