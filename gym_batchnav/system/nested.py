"""Nested values: dicts, lists and dataclasses as plain ones, and their entries by joined names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any


def flattened(tree: Mapping[str, Any], separator: str = ".", prefix: str = "") -> dict[str, Any]:
    """Return the entries of nested mappings and dataclasses by joined names, such as ``camera.width``."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if isinstance(value, Mapping):
            flat |= flattened(value, separator, prefix + name + separator)
        else:
            flat[prefix + name] = value
    return flat


def described(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return nested mappings, tuples, lists and dataclasses as JSON has them, other values as ``leaf`` returns them.

    Dataclasses become dicts with the name of their class as ``type``.
    """
    if is_dataclass(value) and not isinstance(value, type):
        own = {one.name: described(getattr(value, one.name), leaf) for one in fields(value)}
        return {"type": type(value).__name__, **own}
    if isinstance(value, Mapping):
        return {str(key): described(item, leaf) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [described(item, leaf) for item in value]
    return leaf(value)


def finite(value: Any) -> Any:
    """Return JSON values with None in place of NaN and infinity, which JSON does not have."""
    return described(value, lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf)


def class_of(value: Any) -> str:
    """Return the full name of a value's class; the text of the value itself may have an address."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
