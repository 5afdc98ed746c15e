"""Statistics of several runs: interquartile mean, probability of improvement, performance profiles, tables by group.

The definitions are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(NeurIPS 2021), with scenes as tasks: the score of a run in a scene is the mean over its episodes there. That paper's
runs are separate trainings for each task. Here one training acts in all scenes, so intervals draw whole runs, and also
scenes and episodes; ``fixed_scenes`` gives the paper's stratified bootstrap instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.evaluation.intervals import (
    Estimate,
    Layout,
    Resamples,
    bootstrap,
    check_same_episodes,
    draw_resamples,
    intervals_of,
    layout_of,
)

TRIMMED = 0.25  # of the scores, at either end
DISTANCE_LIMITS = (3.0, 5.0, 10.0, 20.0)  # metres


@dataclass(frozen=True, slots=True, eq=False)
class RunScores:
    """A measure of R runs of an agent in the same E episodes.

    Attributes:
        values: [R, E] float64, scene after scene.
        layout: The scenes of the episodes.
    """

    values: np.ndarray
    layout: Layout

    @property
    def cells(self) -> np.ndarray:
        """The score of every run in every scene, [R, S] float64."""
        return np.add.reduceat(self.values, self.layout.first, axis=1) / self.layout.sizes

    def drawn(self, some: Resamples, agent: int = 0) -> np.ndarray:
        """Return the scores in some resamples, [B, R, S] float64."""
        return some.cells(self.values[..., None], agent)[..., 0]


def run_scores(runs: Sequence[EvaluatedEpisodes], measure: str) -> RunScores:
    """Return a measure of several runs.

    Raises:
        ValueError: The runs have different episodes.
    """
    check_same_episodes(runs)
    layout = layout_of(runs[0].scene_index)
    return RunScores(np.stack([np.asarray(getattr(run, measure), float) for run in runs])[:, layout.order], layout)


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Return the mean [...] of the middle half of scores [..., R, S]: a quarter is cut off at either end."""
    ordered = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    count = ordered.shape[-1]
    cut = int(TRIMMED * count)  # rounded down, as others do
    return ordered[..., cut : count - cut].mean(axis=-1)


def improvement(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the probability [...] that a run [..., R, S] has a higher score than another agent's [..., Q, S].

    It is the mean over scenes of the share of pairs in which it is higher; equal scores count as half.
    """
    difference = scores[..., :, None, :] - others[..., None, :, :]
    return ((difference > 0) + 0.5 * (difference == 0)).mean(axis=(-3, -2, -1))


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the share [..., K] of scores [..., R, S] that are above each threshold [K]."""
    return (scores[..., None] > thresholds).mean(axis=(-3, -2))


def iqm_estimate(runs: RunScores, seed: int = 0, *, fixed_scenes: bool = False) -> Estimate:
    """Return the interquartile mean over runs and scenes, and its interval; see ``draw_resamples``."""
    draws = draw_resamples(runs.layout, [len(runs.values)], seed, fixed_scenes=fixed_scenes)
    return _estimate(interquartile_mean(runs.cells), draws, lambda some: interquartile_mean(runs.drawn(some)))


def improvement_estimate(runs: RunScores, others: RunScores, seed: int = 0) -> Estimate:
    """Return ``improvement`` over another agent in the same episodes, and its interval."""
    draws = draw_resamples(runs.layout, [len(runs.values), len(others.values)], seed)
    whole = improvement(runs.cells, others.cells)
    return _estimate(whole, draws, lambda some: improvement(runs.drawn(some), others.drawn(some, 1)))


def profile_estimate(runs: RunScores, thresholds: np.ndarray, seed: int = 0) -> list[Estimate]:
    """Return the performance profile with pointwise intervals, one estimate per threshold [K]."""
    draws = draw_resamples(runs.layout, [len(runs.values)], seed)
    drawn = np.concatenate([profile(runs.drawn(some), thresholds) for some in draws])
    return intervals_of(profile(runs.cells, thresholds), drawn)


def _estimate(whole: np.ndarray, draws: Iterator[Resamples], statistic: Callable[[Resamples], np.ndarray]) -> Estimate:
    """Return a statistic and its interval over resamples, for which ``statistic`` returns values [B]."""
    (found,) = intervals_of(np.atleast_1d(whole), np.concatenate([statistic(some) for some in draws])[:, None])
    return found


@dataclass(frozen=True, slots=True)
class Group:
    """Some of the episodes and the estimates of measures in them.

    Attributes:
        name: Name of the scene or the category, or the range of distances.
        num_episodes: Their number.
        estimates: Mean and interval by measure.
    """

    name: str
    num_episodes: int
    estimates: Mapping[str, Estimate]


def by_scene(
    runs: Sequence[EvaluatedEpisodes], measures: Sequence[str], names: Mapping[int, str], seed: int = 0
) -> list[Group]:
    """Return the results of each scene; ``names`` are those of scenes by ``scene_index``."""
    scene = runs[0].scene_index
    return [_group(runs, measures, scene == number, names[number], seed) for number in dict.fromkeys(scene.tolist())]


def by_category(
    runs: Sequence[EvaluatedEpisodes], measures: Sequence[str], categories: Sequence[str], seed: int = 0
) -> list[Group]:
    """Return the results of each category of goals; ``categories`` [E] are those of the episodes."""
    return [
        _group(runs, measures, np.array([one == name for one in categories]), name, seed)
        for name in sorted(set(categories))
    ]


def by_distance(runs: Sequence[EvaluatedEpisodes], measures: Sequence[str], seed: int = 0) -> list[Group]:
    """Return the results of an agent's runs in the same episodes by the geodesic distance from start to goal.

    A range of ``DISTANCE_LIMITS`` begins at its lower limit. Ranges without episodes are left out.
    """
    bins = np.digitize(runs[0].start_distance, DISTANCE_LIMITS)
    names = [f"below {DISTANCE_LIMITS[0]:g} m"]
    names += [f"{low:g} to {high:g} m" for low, high in itertools.pairwise(DISTANCE_LIMITS)]
    names.append(f"{DISTANCE_LIMITS[-1]:g} m and more")
    return [_group(runs, measures, bins == number, names[number], seed) for number in np.unique(bins).tolist()]


def _group(
    runs: Sequence[EvaluatedEpisodes], measures: Sequence[str], chosen: np.ndarray, name: str, seed: int
) -> Group:
    values = {
        measure: np.stack([np.asarray(getattr(run, measure), float)[chosen] for run in runs]) for measure in measures
    }
    return Group(name, int(chosen.sum()), bootstrap(values, runs[0].scene_index[chosen], seed))
