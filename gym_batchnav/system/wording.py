"""The wording of counts in messages and tables."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 scene``, ``3 scenes``, ``1,200 scenes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
