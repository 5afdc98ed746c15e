"""Format results as JSON and CSV, and select episodes to draw."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import numpy as np

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.evaluation.intervals import Estimate


def figures(found: Mapping[str, Estimate]) -> dict[str, float | list[float]]:
    """Convert estimates to JSON values: means by the names of measures, intervals by ``<name>_interval``."""
    result: dict[str, float | list[float]] = {}
    for name, estimate in found.items():
        result[name] = estimate.mean
        result[f"{name}_interval"] = [estimate.low, estimate.high]
    return result


def episode_table(env: BatchNavEnv, results: Mapping[str, EvaluatedEpisodes]) -> str:
    """Format all episodes of all agents as CSV, with the names of agents, scenes and episodes."""
    text = io.StringIO()
    measures = list(dict.fromkeys(name for episodes in results.values() for name in episodes.measures))
    columns = ["episode_index", *measures, "num_steps", "start_distance"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["agent", "scene", "episode", *columns])
    for agent, episodes in results.items():
        slots, rows = env.simulator.schedule.locate(episodes.episode_index)
        values = [getattr(episodes, name).astype(float).tolist() for name in columns]
        for slot, row, *numbers in zip(slots.tolist(), rows.tolist(), *values, strict=True):
            names = (agent, env.library.name(slot), env.simulator.episode_set(slot).ids[row])
            writer.writerow([*names, *(f"{number:.6g}" for number in numbers)])
    return text.getvalue()


def spread_episodes(rows: np.ndarray, count: int) -> np.ndarray:
    """Return up to ``count`` of some rows [M], evenly spread from the first to the last."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))]


def longest_episodes(episodes: EvaluatedEpisodes, num_scenes: int, per_scene: int) -> np.ndarray:
    """Return the numbers [M] int64 of the longest episodes by start distance, in scenes evenly spread over all."""
    scenes = np.unique(episodes.scene_index)
    selected = scenes[np.unique(np.linspace(0, len(scenes) - 1, num_scenes).astype(int))]
    numbers = []
    for scene in selected:
        rows = np.nonzero(episodes.scene_index == scene)[0]
        order = np.argsort(-episodes.start_distance[rows], kind="stable")
        numbers.append(episodes.episode_index[rows[order[:per_scene]]])
    return np.concatenate(numbers)
