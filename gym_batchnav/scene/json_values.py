"""JSON from files that are not trusted: parsed with bounds, and read with checks of type and range."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MAX_JSON_BYTES = 2**25  # JSON grows up to thirtyfold while it is read
MAX_JSON_ITEMS = 4_000_000


def parse_json(data: bytes) -> dict[str, Any]:
    """Parse a JSON object of bounded size; NaN and infinities are not allowed.

    Args:
        data: UTF-8, with or without a byte order mark.

    Raises:
        ValueError: It is larger than ``MAX_JSON_BYTES`` or ``MAX_JSON_ITEMS``, or no JSON object.
    """
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"it has {len(data):,} bytes of JSON, of which at most {MAX_JSON_BYTES:,} are read: split it")
    num_items = sum(map(data.count, (b"{", b"[", b",")))  # an upper bound; each takes a hundred bytes once it is read
    if num_items > MAX_JSON_ITEMS:
        raise ValueError(f"its JSON has {num_items:,} entries, of which at most {MAX_JSON_ITEMS:,} are read: split it")

    def forbid(name: str) -> None:
        raise ValueError(f"its JSON holds {name}")

    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=forbid)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"its JSON cannot be read ({error}): re-export it") from error
    return dict(mapping(value, "JSON"))


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """The value, which is a JSON object; ``what`` names it in the error."""
    if not isinstance(value, Mapping):
        raise ValueError(f"its {what} is not a JSON object: re-export it")
    return value


def sequence(value: object, what: str) -> Sequence[Any]:
    """The value, which is a JSON list; ``what`` names it in the error."""
    if not isinstance(value, list):
        raise ValueError(f"its {what} is not a JSON list: re-export it")
    return value


def whole(owner: Mapping[str, Any], key: str, default: int | None = None, high: int = 2**40) -> int:
    """The whole number from 0 to ``high`` under ``key``."""
    value = owner.get(key, default)
    if type(value) is not int or not 0 <= value <= high:
        raise ValueError(f"its {key} {short(value)} is not a whole number from 0 to {high}")
    return value


def number(owner: Mapping[str, Any], key: str, default: float) -> float:
    """The finite number under ``key``."""
    return float(numbers(owner, key, (default,))[0])


def numbers(owner: Mapping[str, Any], key: str, default: Sequence[float], largest: float = 1e30) -> np.ndarray:
    """The finite numbers under ``key``, float64, as many as ``default`` has.

    Args:
        owner: A JSON object.
        key: Its key.
        default: The numbers where the key is absent. Where it is a single one, the value need not be a list.
        largest: Bound of their magnitude, exclusive.

    Raises:
        ValueError: The value is something else.
    """
    value = owner.get(key, default)
    if len(default) == 1 and not isinstance(value, (list, tuple)):
        value = [value]
    fits = isinstance(value, (list, tuple)) and len(value) == len(default)
    if not fits or any(type(part) not in (int, float) or not abs(part) < largest for part in value):
        raise ValueError(f"its {key} is not {len(default)} finite numbers: {short(value)}")
    return np.array(value, np.float64)


def short(value: object) -> str:
    """A value from a file for a message, cut to a bounded length."""
    return reprlib.repr(value)
