"""The level of detail at which a home stays within its number of triangles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_STEPS = 6  # counting builds the whole home, so that few must do
_AIM = 0.985  # share of the limit that a step aims at: estimates that fall a little below are of use, others are not
_NEAR = 0.97  # shares of the limit that are near enough
_NEAR_MANY = 0.9
_MANY = 100_000  # triangles that are slow to build, so that ``_NEAR_MANY`` will do
_LEAST_POWER = 0.3  # of the count in x; a count that hardly grows would send the next step far off
_MARGIN = 0.1  # of a bracket, by which a step stays off its ends, so that the bracket shrinks each time
_FARTHEST = 4.0  # times the last x, how far up a step goes where no upper end is known


def largest_within(count: Callable[[float], int], limit: int, least: float, usual: float) -> float:
    """Return the largest x found with ``count(x) <= limit``, or ``least``.

    This is the method of false position (regula falsi) on log(count) against log(x), since the triangles of a curve
    grow about like a power of its level of detail.

    Args:
        count: Grows with x.
        limit: The largest count allowed.
        least: The smallest x that may be chosen.
        usual: A first guess, larger than ``least``.
    """
    low = (least, count(least))
    high = (usual, count(usual))
    if low[1] >= limit:
        return least
    near = _NEAR if limit < _MANY else _NEAR_MANY
    for _ in range(_STEPS):
        (x0, n0) = low
        (x1, n1) = high
        power = max(float(np.log(n1 / n0) / np.log(x1 / x0)), _LEAST_POWER)
        x = float(x0 * (_AIM * limit / n0) ** (1 / power)) if n1 > n0 else 2 * x1
        if n1 <= limit:  # no upper end is known yet
            x = min(x, _FARTHEST * x1)
        else:
            x = float(np.clip(x, (1 - _MARGIN) * x0 + _MARGIN * x1, _MARGIN * x0 + (1 - _MARGIN) * x1))
        found = (x, count(x))
        if n1 <= limit:
            low, high = (high, found) if x > x1 else (found, high)
        elif found[1] <= limit:
            low = found
        else:
            high = found
        if low[1] > near * limit:
            break
    return max((point for point in (low, high) if point[1] <= limit), default=low)[0]
