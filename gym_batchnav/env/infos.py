"""Infos of a batch in Gymnasium's form: one array per key, and a mask [N] bool per array under ``_key``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gym_batchnav.env.simulator import Simulator
from gym_batchnav.task.components import Components, Measures


def step_info(simulator: Simulator, components: Components, measures: Measures) -> dict[str, Any]:
    """Return the infos of every step: the episode of each environment (``INFO_KEYS``) and the step's measures."""
    slot = simulator.agents.slot
    episodes = simulator.episodes
    order = simulator.schedule.order
    info: dict[str, Any] = {
        "scene_index": simulator.library.source_index[slot],
        "episode_index": simulator.schedule.index(slot, episodes.episode),
    }
    if order == "once":
        info["episode_valid"] = episodes.valid.copy()
    if simulator.worlds is not None:
        info["waiting"] = simulator.worlds.waiting()
    for name in components.step_measures:
        info[name] = measures[name].copy()
    for name in tuple(info):
        info[f"_{name}"] = np.ones(simulator.num_agents, bool)
    return info


def end_info(components: Components, measures: Measures, done: np.ndarray) -> dict[str, Any]:
    """Return the end measures of the episodes that ended, ``done`` [N] bool; an empty dict if none did."""
    info: dict[str, Any] = {}
    if done.any():
        for name in components.end_measures:
            info[name] = measures[name].copy()
            info[f"_{name}"] = done.copy()
    return info
