"""The methods that measure geodesic distances."""

from __future__ import annotations

GEODESICS = ("exact", "detour")


def is_detour(method: str) -> bool:
    """Return whether a method is Detour's, the one that Habitat uses, instead of the exact one.

    Raises:
        ValueError: If there is no such method.
    """
    if method not in GEODESICS:
        raise ValueError(f"method={method!r}: choose one of {', '.join(map(repr, GEODESICS))}")
    return method == "detour"
