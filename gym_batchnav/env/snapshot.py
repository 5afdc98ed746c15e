"""Checks of saved states, before a simulator resumes from one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gym_batchnav.preparation.navigation import AnyNavigation


def check_rows(state: dict[str, Any], navigations: Sequence[AnyNavigation | None]) -> None:
    """Raise ValueError unless all row numbers in a state are within the scenes' arrays.

    Args:
        state: The arrays of ``"agents"`` and ``"episodes"``, and those of ``"worlds"`` if there are any.
        navigations: The navmesh, tables and episodes of the scene in every slot; None for an empty slot.
    """
    slot = np.asarray(state["agents"]["slot"])
    if slot.min() < 0 or slot.max() >= len(navigations):
        raise ValueError(f"state with scenes up to {slot.max()}: this library has {len(navigations)}")
    limits = {
        "episode": [0 if one is None else len(one.episode_set) for one in navigations],
        "goal_index": [0 if one is None else len(one.episode_set.first_goal) - 1 for one in navigations],
        "polygon": [0 if one is None else one.navmesh.num_polygons for one in navigations],
    }
    agents = {**state["agents"], **state["episodes"]}
    for name, limit in limits.items():
        _check_limit(name, np.asarray(agents[name]), np.array(limit)[slot])
    if "worlds" in state:
        bodies = state["worlds"]
        of_worlds = slot.reshape(len(bodies["polygon"]), -1)[:, :1]
        for name in ("goal_index", "polygon"):
            _check_limit(name, np.asarray(bodies[name]), np.array(limits[name])[of_worlds])
    episodes = state["episodes"]
    reached = np.asarray(episodes["num_reached"])
    tours = np.array([0 if one is None else one.episode_set.tour.shape[1] for one in navigations])[slot]
    if (reached < 0).any() or (reached > episodes["num_goals"]).any() or (episodes["num_goals"] > tours).any():
        raise ValueError("state arrays 'num_reached' and 'num_goals' do not fit: they belong to other episodes")


def _check_limit(name: str, rows: np.ndarray, limit: np.ndarray) -> None:
    """Raise ValueError unless all rows are from 0 to below a limit that they broadcast with."""
    if (rows < 0).any() or (rows >= limit).any():
        raise ValueError(f"state array {name!r} does not fit: it belongs to other scenes or episodes")
