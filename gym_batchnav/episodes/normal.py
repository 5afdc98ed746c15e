"""Truncated normal numbers from uniform ones, so that keyed uniform draws make keyed normal draws."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER, SMALL


@njit(**SMALL)
def _cumulative(x: float) -> float:
    """Return the probability that a standard normal number is less than x."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@njit(**INNER)
def _quantile(p: float) -> float:
    """Return the standard normal number below which a share p lies, for p between 1.4e-11 and 1 - 1.4e-11.

    The rational approximations are those of Wichura, "Algorithm AS 241: The percentage points of the normal
    distribution", Applied Statistics 37 (1988), routine PPND16; the relative error is about 1e-16.
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = 2.5090809287301226727e3 * r + 3.3430575583588128105e4
        above = (above * r + 6.7265770927008700853e4) * r + 4.5921953931549871457e4
        above = (above * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3
        above = (above * r + 1.3314166789178437745e2) * r + 3.3871328727963666080e0
        below = 5.2264952788528545610e3 * r + 2.8729085735721942674e4
        below = (below * r + 3.9307895800092710610e4) * r + 2.1213794301586595867e4
        below = (below * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2
        below = (below * r + 4.2313330701600911252e1) * r + 1.0
        return q * above / below
    r = math.sqrt(-math.log(min(p, 1.0 - p))) - 1.6
    above = 7.74545014278341407640e-4 * r + 2.27238449892691845833e-2
    above = (above * r + 2.41780725177450611770e-1) * r + 1.27045825245236838258e0
    above = (above * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0
    above = (above * r + 4.63033784615654529590e0) * r + 1.42343711074968357734e0
    below = 1.05075007164441684324e-9 * r + 5.47593808499534494600e-4
    below = (below * r + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1
    below = (below * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0
    below = (below * r + 2.05319162663775882187e0) * r + 1.0
    return math.copysign(above / below, q)


@njit(**ENTRY)
def _truncated_normal(uniform: np.ndarray, low: np.ndarray, high: float, out: np.ndarray) -> None:
    for i in range(uniform.shape[0]):
        for k in range(uniform.shape[1]):
            first = _cumulative(low[i, k])
            share = first + uniform[i, k] * (_cumulative(high) - first)
            out[i, k] = min(max(_quantile(share), low[i, k]), high)


def truncated_normal(uniform: np.ndarray, low: np.ndarray, high: float) -> np.ndarray:
    """Return standard normal numbers under the condition that they lie between two bounds.

    Args:
        uniform: [N, D] float64, random numbers in [0, 1).
        low: [N, D] float64, lower bounds, from -6 to ``high``.
        high: Upper bound, at most 6.

    Returns:
        [N, D] float64, each a monotone function of its uniform number.

    Raises:
        ValueError: A bound is out of its range, or the shapes differ.
    """
    uniform = np.ascontiguousarray(uniform, np.float64)
    low = np.ascontiguousarray(low, np.float64)
    if uniform.ndim != 2 or uniform.shape != low.shape:
        raise ValueError(f"uniform {uniform.shape} and low {low.shape}: pass two arrays of the same shape (N, D)")
    if not ((low >= -6) & (low <= high)).all() or not high <= 6:
        raise ValueError(f"low={low.min()} to {low.max()} and high={high}: pass -6 <= low <= high <= 6")
    out = np.empty_like(uniform)
    _truncated_normal(uniform, low, float(high), out)
    return out
