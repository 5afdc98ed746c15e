"""JSON from untrusted files: parsing with limits, and access with checks of type and range."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MAX_JSON_BYTES = 2**25  # parsing takes up to thirty times the size of the JSON
MAX_GLTF_JSON_BYTES = 2**27  # glTF may embed all of its data as text, which takes a few times its size
MAX_JSON_ITEMS = 4_000_000
short = reprlib.repr  # of values from files, in messages


def parse_json(data: bytes, max_bytes: int | None = None) -> dict[str, Any]:
    """Parse a JSON object of bounded size; NaN and infinities are not allowed.

    Args:
        data: UTF-8, with or without a byte order mark.
        max_bytes: Limit of its size, ``MAX_JSON_BYTES`` by default.

    Raises:
        ValueError: If it exceeds the limit or ``MAX_JSON_ITEMS``, or is not a JSON object.
    """
    max_bytes = MAX_JSON_BYTES if max_bytes is None else max_bytes
    if len(data) > max_bytes:
        raise ValueError(f"it has {len(data):,} bytes of JSON, the limit is {max_bytes:,}: split it")
    num_items = sum(map(data.count, (b"{", b"[", b",")))  # an upper bound; each item takes a hundred bytes in memory
    if num_items > MAX_JSON_ITEMS:
        raise ValueError(f"its JSON has {num_items:,} entries, the limit is {MAX_JSON_ITEMS:,}: split it")

    def forbid(name: str) -> None:
        raise ValueError(f"its JSON contains {name}: re-export it")

    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=forbid)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"its JSON cannot be read ({error}): re-export it") from error
    return dict(mapping(value, "JSON"))


def mapping(value: object, name: str) -> Mapping[str, Any]:
    """Return a value unchanged; raise ValueError, which mentions its name, unless it is a JSON object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"its {name} is not a JSON object: re-export it")
    return value


def sequence(value: object, name: str) -> Sequence[Any]:
    """Return a value unchanged; raise ValueError, which mentions its name, unless it is a JSON list."""
    if not isinstance(value, list):
        raise ValueError(f"its {name} is not a JSON list: re-export it")
    return value


def integer(owner: Mapping[str, Any], key: str, default: int | None = None, high: int = 2**40) -> int:
    """Return the integer under ``key``; raise ValueError unless it is from 0 to ``high``."""
    value = owner.get(key, default)
    if isinstance(value, float) and value.is_integer():  # JSON has one type of numbers: 2.0 is 2
        value = int(value)
    if type(value) is not int or not 0 <= value <= high:
        raise ValueError(f"its {key} {short(value)} is not an integer from 0 to {high}: correct or re-export it")
    return value


def number(owner: Mapping[str, Any], key: str, default: float) -> float:
    """Return the finite number under ``key``; see ``numbers``."""
    return float(numbers(owner, key, (default,))[0])


def numbers(owner: Mapping[str, Any], key: str, default: Sequence[float], largest: float = 1e30) -> np.ndarray:
    """Return the finite numbers under ``key`` as float64, with the length of ``default``.

    Args:
        owner: A JSON object.
        key: The key.
        default: The numbers to return if the key is absent. If there is one, the value may be a number or a list.
        largest: Limit of their magnitude, exclusive.

    Raises:
        ValueError: If the value is anything else.
    """
    value = owner.get(key, default)
    if len(default) == 1 and not isinstance(value, (list, tuple)):
        value = [value]
    fits = isinstance(value, (list, tuple)) and len(value) == len(default)
    if not fits or any(type(part) not in (int, float) or not abs(part) < largest for part in value):
        raise ValueError(f"its {key} is not {len(default)} finite numbers ({short(value)}): correct or re-export it")
    return np.array(value, np.float64)
