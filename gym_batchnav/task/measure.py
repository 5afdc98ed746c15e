"""How a run is scored: Habitat's measures as functions of arrays, one row an environment."""

from __future__ import annotations

import numpy as np


def success(stopped: np.ndarray, distance_to_goal: np.ndarray, success_distance: float) -> np.ndarray:
    """Whether each agent [N] called STOP with its geodesic distance (metres) below ``success_distance``."""
    # Success needs STOP: standing on the goal at the time limit is failure.
    return stopped & (distance_to_goal < success_distance)


def efficiency(start_distance: np.ndarray, path_length: np.ndarray) -> np.ndarray:
    """Share [N] of the way walked that the shortest path needs: d0 / max(d0, path), 1 where both are zero."""
    longest = np.maximum(start_distance, path_length)
    return np.divide(start_distance, longest, out=np.ones_like(longest), where=longest > 0)


def spl(succeeded: np.ndarray, start_distance: np.ndarray, path_length: np.ndarray) -> np.ndarray:
    """Success weighted by path length [N] (Anderson et al. 2018, "On Evaluation of Embodied Navigation Agents")."""
    return succeeded * efficiency(start_distance, path_length)


def soft_spl(distance_to_goal: np.ndarray, start_distance: np.ndarray, path_length: np.ndarray) -> np.ndarray:
    """SPL with the progress made, max(0, 1 - d/d0), in the place of success [N] (Datta et al. 2020)."""
    remaining = np.divide(
        distance_to_goal, start_distance, out=np.ones_like(distance_to_goal), where=start_distance > 0
    )
    return np.maximum(0, 1 - remaining) * efficiency(start_distance, path_length)
