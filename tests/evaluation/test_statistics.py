"""Statistics over runs and scenes: definitions of others, analytic variances, groups, the scores file, and causes."""

import json

import numpy as np
import pytest

from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.evaluation.failures import CAUSES, count_causes, failure_causes, measures_for_causes
from gym_batchnav.evaluation.intervals import bootstrap, draw_resamples, layout_of
from gym_batchnav.evaluation.report import read_scores, scores_json
from gym_batchnav.evaluation.statistics import (
    by_distance,
    by_scene,
    improvement,
    improvement_estimate,
    interquartile_mean,
    iqm_estimate,
    profile,
    profile_estimate,
    run_scores,
)
from gym_batchnav.task.explore import Explore
from gym_batchnav.task.pointnav import PointNav

SCENE = np.repeat([3, 0, 5, 1], [4, 6, 5, 5])  # not in order, of different sizes


def episodes_of(spl, scene=SCENE, distance=None, **measures):
    count = len(spl)
    distance = np.ones(count) if distance is None else distance
    numbers = np.arange(count)
    measures = {"spl": np.asarray(spl, float), **measures}
    return EvaluatedEpisodes(np.asarray(scene), numbers, np.full(count, 9), np.zeros(count), distance, measures)


def runs_of(num_runs, seed=0, scene=SCENE):
    return [episodes_of(np.random.default_rng([seed, run]).random(len(scene)), scene) for run in range(num_runs)]


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (5, 7)])
def test_the_interquartile_mean_is_scipys_trimmed_mean(shape):
    stats = pytest.importorskip("scipy.stats")
    scores = np.random.default_rng(shape).random(shape)
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))


def test_improvement_is_the_mean_of_mann_whitneys_statistic():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    one = rng.integers(0, 5, (3, 6)) / 4  # with ties
    other = rng.integers(0, 5, (4, 6)) / 4
    expected = [stats.mannwhitneyu(*pair).statistic / 12 for pair in zip(one.T, other.T, strict=True)]
    assert improvement(one, other) == pytest.approx(np.mean(expected))
    assert improvement(one, other) + improvement(other, one) == pytest.approx(1)
    assert improvement(one + 2, other) == 1


def test_profiles_count_scores_above_thresholds():
    scores = np.array([[0.0, 0.5], [0.5, 1.0]])
    np.testing.assert_array_equal(profile(scores, np.array([-1, 0, 0.5, 0.9, 1])), [1, 0.75, 0.25, 0.25, 0])
    runs = run_scores(runs_of(3), "spl")
    found = profile_estimate(runs, np.linspace(0, 1, 5))
    assert [one.mean for one in found] == profile(runs.cells, np.linspace(0, 1, 5)).tolist()
    assert all(one.low <= one.mean <= one.high for one in found)


def test_scores_are_means_by_run_and_scene():
    runs = runs_of(3)
    cells = run_scores(runs, "spl").cells
    for column, scene in enumerate(sorted(set(SCENE.tolist()))):
        np.testing.assert_allclose(cells[:, column], [run.spl[scene == SCENE].mean() for run in runs])


def drawn_means(values, layout, **options):
    draws = draw_resamples(layout, [len(values)], resamples=4000, **options)
    return np.concatenate([some.cells(values[..., None]).mean(axis=(1, 2, 3)) for some in draws])


def test_whole_runs_are_drawn_unless_each_scene_is_a_stratum():
    """Variances of the mean have closed forms when runs alone are drawn: one episode for each scene."""
    num_runs, num_scenes = 4, 6
    values = np.random.default_rng(2).normal(0, 1, (num_runs, num_scenes)) + 3 * np.arange(num_runs)[:, None]
    layout = layout_of(np.arange(num_scenes))
    strata = drawn_means(values, layout, fixed_scenes=True)
    assert np.var(strata) == pytest.approx(values.var(axis=0).sum() / num_runs / num_scenes**2, rel=0.1)
    same = layout_of(np.zeros(num_scenes, int))
    alike = np.repeat(values.mean(axis=1, keepdims=True), num_scenes, axis=1)  # which episode is drawn does not matter
    whole = drawn_means(alike, same)
    assert np.var(whole) == pytest.approx(values.mean(axis=1).var() / num_runs, rel=0.1)
    assert np.var(whole) > 3 * np.var(strata)


def test_runs_of_the_same_episodes_widen_the_interval_only_if_they_differ():
    scene = np.repeat(np.arange(8), 10)
    success = np.random.default_rng(0).random(80) < 0.7
    single = bootstrap({"x": success}, scene)["x"]
    copies = bootstrap({"x": np.stack([success] * 3)}, scene)["x"]
    assert copies.mean == pytest.approx(single.mean)
    assert copies.high - copies.low == pytest.approx(single.high - single.low, rel=0.15)
    differing = bootstrap({"x": np.stack([success, np.ones(80), np.zeros(80)])}, scene)["x"]
    assert differing.high - differing.low > 2 * (single.high - single.low)


def test_comparisons_are_paired_by_scenes_and_episodes():
    """An agent that is a little better in every episode is certainly better, however much scenes differ."""
    runs = runs_of(1)
    better = [episodes_of(runs[0].spl + 1e-3)]
    found = improvement_estimate(run_scores(better, "spl"), run_scores(runs, "spl"))
    assert (found.mean, found.low, found.high) == (1, 1, 1)
    same = improvement_estimate(run_scores(runs, "spl"), run_scores(runs, "spl"))
    assert (same.mean, same.low, same.high) == (0.5, 0.5, 0.5)


def test_fixed_scenes_leave_out_what_other_scenes_would_change():
    scene = np.repeat(np.arange(8), 5)
    runs = [episodes_of(scene / 8 + 0.01 * run, scene) for run in range(3)]
    scores = run_scores(runs, "spl")
    free, fixed = (iqm_estimate(scores, fixed_scenes=one) for one in (False, True))
    assert free.mean == fixed.mean == interquartile_mean(scores.cells)
    assert fixed.high - fixed.low < 0.05 < 0.2 < free.high - free.low
    with pytest.raises(ValueError, match="the runs have different episodes"):
        run_scores([runs[0], runs_of(1)[0]], "spl")
    with pytest.raises(ValueError, match="at least one episode"):
        run_scores([], "spl")


def test_groups_divide_the_episodes():
    rng = np.random.default_rng(1)
    distance = rng.uniform(1, 25, len(SCENE))
    distance[:2] = 5.0  # on a limit
    runs = [episodes_of(rng.random(len(SCENE)), distance=distance) for _ in range(2)]
    spl = np.stack([run.spl for run in runs])
    groups = by_distance(runs, ["spl"])
    assert sum(group.num_episodes for group in groups) == len(SCENE)
    middle = next(group for group in groups if group.name == "5 to 10 m")
    inside = (distance >= 5) & (distance < 10)
    assert middle.num_episodes == inside.sum() >= 2
    assert middle.estimates["spl"].mean == pytest.approx(spl[:, inside].mean())
    scenes = by_scene(runs, ["spl"], {number: f"room {number}" for number in range(6)})
    assert {group.name: group.num_episodes for group in scenes} == {"room 3": 4, "room 0": 6, "room 5": 5, "room 1": 5}
    assert scenes[1].estimates["spl"].mean == pytest.approx(spl[:, SCENE == 0].mean())


def test_a_scores_file_is_what_rliable_takes(tmp_path):
    cells = run_scores(runs_of(3), "spl").cells
    file = tmp_path / "scores.json"
    file.write_text(scores_json({"spl": {"policy": cells, "blind": cells[:1]}}, list("abcd"), [4, 6, 5, 5]))
    found = read_scores(file)
    assert {agent: one.shape for agent, one in found.items()} == {"policy": (3, 4), "blind": (1, 4)}
    np.testing.assert_array_equal(found["policy"], cells)
    assert json.loads(file.read_text())["scenes"] == list("abcd")
    with pytest.raises(ValueError, match=r"measure='success' is not in .*; available: spl"):
        read_scores(file, "success")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_scores(tmp_path / "none.json")
    good = file.read_text()
    for content, match in (
        ("[" * 10**5, "is damaged"),
        ("[]", "is not 'gym-batchnav scores 1'"),
        (good.replace('"policy": [', '"policy": [[1], '), "are not rows of numbers"),
        (json.dumps({"format": "gym-batchnav scores 1", "scores": {"spl": {"a": "x"}}}), "are not rows of numbers"),
        (json.dumps({"format": "gym-batchnav scores 1", "scores": 3}), "measure='spl'"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=match):
            read_scores(file)


def test_every_failure_has_the_first_cause_whose_rule_holds():
    table = [  # success, timed_out, collisions, cells, cause; 100 steps each
        (True, False, 90, 1, ""),
        (False, False, 90, 1, "wrong_stop"),
        (False, True, 25, 1, "collision"),
        (False, True, 24, 4, "loop"),
        (False, True, 0, 5, "time_out"),
    ]
    success, timed_out, collisions, cells, causes = (np.array(column) for column in zip(*table, strict=True))
    count = len(table)
    measures = {"success": success, "timed_out": timed_out, "collisions_count": collisions, "cells_visited": cells}
    episodes = EvaluatedEpisodes(*[np.zeros(count, int)] * 2, np.full(count, 100), *[np.zeros(count)] * 2, measures)
    assert failure_causes(episodes).tolist() == causes.tolist()
    assert count_causes(causes) == dict.fromkeys(CAUSES, 1)
    del measures["timed_out"]
    with pytest.raises(ValueError, match="no measure timed_out: make the environment with"):
        failure_causes(episodes)
    assert {one.name for one in measures_for_causes(PointNav())} == {"timed_out", "cells_visited"}
    assert measures_for_causes(Explore()) == ()
