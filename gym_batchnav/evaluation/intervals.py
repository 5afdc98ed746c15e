"""Confidence intervals of mean measures: percentile intervals of a bootstrap over scenes and their episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over episodes and its 95% interval."""

    mean: float
    low: float
    high: float


def estimates(episodes: EvaluatedEpisodes, seed: int = 0) -> dict[str, Estimate]:
    """Return mean and interval of every measure and of ``num_steps``; NaN if a value is not finite."""
    return bootstrap({**episodes.measures, "num_steps": episodes.num_steps}, episodes.scene_index, seed)


def bootstrap(
    values: Mapping[str, np.ndarray], scene: np.ndarray, seed: int = 0, resamples: int = NUM_RESAMPLES
) -> dict[str, Estimate]:
    """Return means and their 95% percentile intervals from a two-stage bootstrap.

    Episodes of the same scene are correlated. Each resample therefore draws scenes with replacement, and then episodes
    of each drawn scene (the cluster bootstrap of Davison and Hinkley, "Bootstrap Methods and their Application", 1997,
    section 3.8). With a single scene only its episodes are drawn. On synthetic successes with three to twenty scenes of
    25 episodes, the intervals contained the true mean in 90% to 99% of the cases: they tend to be too wide, except with
    few scenes that differ a lot.

    Args:
        values: Arrays [E] by name.
        scene: [E] int, the scene of each episode.
        seed: Seed of the resamples; all values share them.
        resamples: Number of resamples.
    """
    _, scene, sizes = np.unique(scene, return_inverse=True, return_counts=True)
    order = np.argsort(scene, kind="stable")
    table = np.stack([np.asarray(column, float)[order] for column in values.values()], axis=1)
    table[:, ~np.isfinite(table).all(axis=0)] = np.nan
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rng = np.random.default_rng(seed)
    means = np.empty((resamples, table.shape[1]))
    for resample in range(resamples):
        drawn = rng.integers(0, len(sizes), len(sizes))
        size = np.repeat(sizes[drawn], sizes[drawn])
        rows = np.repeat(first[drawn], sizes[drawn]) + (rng.random(len(size)) * size).astype(np.int64)
        means[resample] = table[rows].mean(axis=0)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    whole = table.mean(axis=0)
    return {name: Estimate(float(whole[k]), float(low[k]), float(high[k])) for k, name in enumerate(values)}
