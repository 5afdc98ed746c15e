"""The pictures of an evaluation's report: profiles, maps and a clip of the longest episodes, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.comparison import Comparison
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.evaluation.failures import CAUSES, failure_causes
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.viz.clips import episode_clip, trajectory_maps
from gym_batchnav.viz.failures import failure_sheet
from gym_batchnav.viz.profiles import profiles_png
from gym_batchnav.viz.recording import Recording, record_episodes
from gym_batchnav.viz.save import save_clip, save_picture

SHOWN_SCENES = 6  # on the maps
SHOWN_EPISODES = 4  # per scene; those of the first scene are filmed
SHOWN_FAILURES = 3  # of each cause, on the contact sheet
MIN_SCORES = 3  # runs times scenes, from which profiles are drawn


def draw_report(comparison: Comparison, out: Path, found: Mapping[str, Any]) -> dict[Path, str]:
    """Draw the pictures of a report into a folder; return a description of each file.

    Args:
        comparison: The comparison, with results.
        out: The folder, which must exist.
        found: What ``evaluation.report.summary`` returned.

    Raises:
        MissingExtraError: Matplotlib is not installed; ``viz.profiles.check_figures`` tells beforehand.
    """
    files = {
        "trajectories.png": "trajectories from above, the shortest paths in grey",
        "clip.gif": "the longest episodes of the first scene",
    }
    _draw_longest(comparison, out)
    for name in ("profiles.png", "failures.png"):
        (out / name).unlink(missing_ok=True)  # of an evaluation before this one
    if len(comparison.policies) * len(found["scenes"]) >= MIN_SCORES:
        write_atomically(out / "profiles.png", profiles_png(found["profiles"], found["measure"]))
        files["profiles.png"] = "performance profiles: the share of scores above each threshold"
    if "failures" in found and _draw_failures(comparison, out):
        files["failures.png"] = "failures by cause: map, first, middle and last views"
    return {out / name: description for name, description in files.items()}


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


def _draw_longest(comparison: Comparison, out: Path) -> None:
    """Draw the maps and the clip of the longest episodes."""
    shown = longest_episodes(comparison.results[comparison.policies[0]], SHOWN_SCENES, SHOWN_EPISODES)
    with _recorded(comparison, shown, min(SHOWN_EPISODES, comparison.episodes_per_scene)) as (env, recording):
        save_picture(trajectory_maps(env, recording), out / "trajectories.png")
        save_clip(episode_clip(env, recording), out / "clip.gif", fps=8)


def _draw_failures(comparison: Comparison, out: Path) -> bool:
    """Draw failures of the policy's first run as a contact sheet; return whether there is any."""
    episodes = comparison.results[comparison.policies[0]]
    causes = failure_causes(episodes)
    rows = np.concatenate([spread_episodes(np.nonzero(causes == cause)[0], SHOWN_FAILURES) for cause in CAUSES])
    if not len(rows):
        return False
    with _recorded(comparison, episodes.episode_index[rows]) as (env, recording):
        told = [CAUSES[cause] for cause in causes[rows].tolist()]
        save_picture(failure_sheet(env, recording, told), out / "failures.png")
    return True


@contextmanager
def _recorded(
    comparison: Comparison, shown: np.ndarray, num_filmed: int | None = None
) -> Iterator[tuple[BatchNavEnv, Recording]]:
    """Record some episodes [M] of the policy's first run in a batch of their own, which is closed afterwards."""
    env = BatchNavEnv(
        len(shown), **comparison.keywords, library=comparison.env.library, renderer=comparison.env.renderer.name
    )
    try:
        agent = comparison.agents[comparison.policies[0]]
        seed = comparison.asked.seed
        indices = np.arange(len(shown))
        yield env, record_episodes(env, agent, indices=indices, num_filmed=num_filmed, seed=seed, episodes=shown)
    finally:
        env.close()
