"""Confidence intervals: percentile intervals of a bootstrap over training seeds, scenes and their episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000
MAX_ROWS = 2**16  # of resamples that are drawn at once


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean or another statistic, and its 95% interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which of E episodes belong to which of S scenes."""

    order: np.ndarray  # [E] int64, the rows of the episodes, scene after scene
    first: np.ndarray  # [S] int64, where each scene begins in that order
    sizes: np.ndarray  # [S] int64, episodes per scene


@dataclass(frozen=True, slots=True, eq=False)
class Resamples:
    """B resamples of scenes, episodes and runs."""

    rows: np.ndarray  # [B, S, n] int64, places in ``Layout.order`` for each drawn scene, padded to the largest
    is_drawn: np.ndarray  # [B, S, n] bool, False where a row is padding
    sizes: np.ndarray  # [B, S] int64, episodes of each drawn scene
    runs: tuple[np.ndarray, ...]  # by agent, [B, R, S] int64: the runs drawn for each drawn scene

    def cells(self, values: np.ndarray, agent: int = 0) -> np.ndarray:
        """Return the mean [B, R, S, K] of each drawn run of an agent in each drawn scene.

        Values [R, E, K] are in the order of the layout; ``agent`` is its place among those for which runs were drawn.
        """
        sums = np.einsum("rbsnk,bsn->brsk", values[:, self.rows], self.is_drawn.astype(float))
        return np.take_along_axis(sums / self.sizes[:, None, :, None], self.runs[agent][..., None], axis=1)


def estimates(episodes: EvaluatedEpisodes | Sequence[EvaluatedEpisodes], seed: int = 0) -> dict[str, Estimate]:
    """Return mean and interval of every measure and of ``num_steps``; NaN if a value is not finite.

    Args:
        episodes: The results of an agent, or of several runs (training seeds) of it in the same episodes.
        seed: Seed of the resamples.

    Raises:
        ValueError: There are no episodes, or the runs have different ones.
    """
    runs = episodes if isinstance(episodes, Sequence) else [episodes]
    check_same_episodes(runs)
    names = [*runs[0].measures, "num_steps"]
    values = {name: np.stack([np.asarray(getattr(run, name)) for run in runs]) for name in names}
    return bootstrap(values, runs[0].scene_index, seed)


def check_same_episodes(runs: Sequence[EvaluatedEpisodes]) -> None:
    """Raise ValueError unless there are runs, and all have the same episodes, at least one."""
    if not runs or not len(runs[0]):
        raise ValueError("there are no results: pass those of at least one run, with at least one episode")
    for run in runs[1:]:
        if not np.array_equal(run.episode_index, runs[0].episode_index):
            raise ValueError("the runs have different episodes: evaluate all of them in the same ones")


def bootstrap(
    values: Mapping[str, np.ndarray], scene: np.ndarray, seed: int = 0, resamples: int = NUM_RESAMPLES
) -> dict[str, Estimate]:
    """Return means over all episodes and their 95% percentile intervals.

    Episodes of the same scene are correlated. Each resample therefore draws scenes with replacement, and then episodes
    of each drawn scene (the cluster bootstrap of Davison and Hinkley, "Bootstrap Methods and their Application", 1997,
    section 3.8). With a single scene only its episodes are drawn. Of several runs, each resample draws as many with
    replacement, the same ones in all scenes, because a run acts in all of them. On synthetic successes with three to
    twenty scenes of 25 episodes, the intervals contained the true mean in 90% to 99% of the cases: they tend to be too
    wide, except with few scenes that differ a lot.

    Args:
        values: Arrays [E], or [R, E] of R runs, by name.
        scene: [E] int, the scene of each episode.
        seed: Seed of the resamples; all values share them.
        resamples: Number of resamples.
    """
    layout = layout_of(scene)
    table = np.stack([np.atleast_2d(np.asarray(column, float))[:, layout.order] for column in values.values()], axis=2)
    table[:, :, ~np.isfinite(table).all(axis=(0, 1))] = np.nan
    drawn = [
        (some.cells(table).mean(axis=1) * some.sizes[..., None]).sum(axis=1) / some.sizes.sum(axis=1)[:, None]
        for some in draw_resamples(layout, [len(table)], seed, resamples)
    ]
    return dict(zip(values, intervals_of(table.mean(axis=(0, 1)), np.concatenate(drawn)), strict=True))


def layout_of(scene: np.ndarray) -> Layout:
    """Return the layout of episodes with scenes [E]."""
    _, index, sizes = np.unique(scene, return_inverse=True, return_counts=True)
    return Layout(np.argsort(index, kind="stable"), np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)


def draw_resamples(
    layout: Layout,
    num_runs: Sequence[int],
    seed: int = 0,
    resamples: int = NUM_RESAMPLES,
    *,
    fixed_scenes: bool = False,
) -> Iterator[Resamples]:
    """Draw scenes, episodes of each drawn scene and runs of each agent, with replacement; yield some at a time.

    Agents, of which each has a number of runs, share scenes and episodes, so that comparisons are paired.

    With ``fixed_scenes``, every scene is a stratum, as tasks are to rliable: it occurs once, and runs are drawn in each
    scene anew. The result then holds for these scenes alone; otherwise also for others like them.
    """
    rng = np.random.default_rng(seed)
    num_scenes = len(layout.sizes)
    largest = int(layout.sizes.max())
    at_once = max(1, MAX_ROWS // (num_scenes * largest))
    for begin in range(0, resamples, at_once):
        count = min(at_once, resamples - begin)
        scenes = rng.integers(0, num_scenes, (count, num_scenes))
        if fixed_scenes:
            scenes = np.tile(np.arange(num_scenes), (count, 1))
        sizes = layout.sizes[scenes]
        picked = (rng.random((count, num_scenes, largest)) * sizes[..., None]).astype(np.int64)
        runs = tuple(_draw_runs(rng, number, (count, num_scenes), fixed_scenes) for number in num_runs)
        yield Resamples(layout.first[scenes][..., None] + picked, np.arange(largest) < sizes[..., None], sizes, runs)


def _draw_runs(rng: np.random.Generator, number: int, shape: tuple[int, int], each_scene: bool) -> np.ndarray:
    """Return drawn runs [B, R, S]: the same ones in all scenes, or others in each."""
    count, num_scenes = shape
    if each_scene:
        return rng.integers(0, number, (count, number, num_scenes))
    return np.repeat(rng.integers(0, number, (count, number, 1)), num_scenes, axis=2)


def intervals_of(whole: np.ndarray, drawn: np.ndarray) -> list[Estimate]:
    """Return estimates from statistics [K] and those of B resamples [B, K]."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail], axis=0)
    return [Estimate(*map(float, one)) for one in zip(whole, low, high, strict=True)]
