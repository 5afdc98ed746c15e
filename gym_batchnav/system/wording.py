"""The wording of counts and of measures in messages, tables and figures."""

from __future__ import annotations

_SPECIAL = {"spl": "SPL", "soft_spl": "SoftSPL"}


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 scene``, ``3 scenes``, ``1,200 scenes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def measure_in_words(name: str) -> str:
    """Return the name of a measure as people write it: ``SPL``, ``SoftSPL``, ``distance to goal``."""
    return _SPECIAL.get(name, name.replace("_", " "))
