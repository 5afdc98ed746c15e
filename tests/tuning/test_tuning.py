"""Choosing fast settings: the model against a machine whose speed is a formula."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rooms import box_room
from typer.testing import CliRunner

from gym_batchnav.bench import _circumstances
from gym_batchnav.cli import app
from gym_batchnav.geometry import Camera
from gym_batchnav.library.features import SceneFeatures
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.system.runs import read_runs
from gym_batchnav.tuning import tune
from gym_batchnav.tuning.features import Machine, Run, Situation, SpeedSettings
from gym_batchnav.tuning.measure import Workload, bench_run, training_run
from gym_batchnav.tuning.model import SpeedModel
from gym_batchnav.tuning.tune import Limits, candidates, choose, needed_bytes

MACHINE = Machine(4, 500.0)
SETS = [SceneFeatures(8, triangles, 4 * triangles, 10.0) for triangles in (3e3, 1e4, 3e4, 1e5, 3e5)]
LIMITS = Limits(((64, 64),), ("embree",), 8, 4)


def situation(scenes, machine=MACHINE):
    return Situation("step", ("depth",), scenes, machine)


def fps(given, settings, rng=None):
    """A machine with a fixed cost per step and per ray; caches are missed by large batches."""
    rays = settings.num_envs * settings.width * settings.height
    cost = 50e-9 * math.log2(given.scenes.triangles) / settings.threads**0.9
    seconds = 2e-3 + rays * cost * (1 + (settings.num_envs / 1500) ** 2)
    noise = 1.0 if rng is None else math.exp(rng.normal(0, 0.05))
    return settings.num_envs / seconds * noise * given.machine.calibration_mops / 500


def runs_on(sets, count, rng):
    runs = []
    for scenes in sets:
        settings = candidates(situation(scenes), LIMITS)
        for row in rng.choice(len(settings), count, replace=False).tolist():
            runs.append(Run(situation(scenes), settings[row], fps(situation(scenes), settings[row], rng), 2.0))
    return runs


@pytest.fixture(scope="module")
def runs():
    return runs_on(SETS[:2] + SETS[3:], 15, np.random.default_rng(0))


def test_the_choice_for_scenes_without_a_run_is_nearly_the_fastest(runs):
    given = situation(SETS[2])
    settings = candidates(given, LIMITS)
    best = max(fps(given, one) for one in settings)
    choices = choose(runs, given, LIMITS, 3)
    assert fps(given, choices[0].settings) > 0.9 * best
    assert [one.promised for one in choices] == sorted((one.promised for one in choices), reverse=True)
    assert all(one.promised <= one.expected for one in choices)


def test_nine_of_ten_promises_hold_for_scenes_without_a_run(runs):
    rng = np.random.default_rng(1)
    held = []
    model = SpeedModel(runs)
    for run in runs_on(SETS[2:3], 32, rng):
        held.append(model.speeds(run.situation, [run.settings]).promised[0] <= run.fps)
    assert np.mean(held) >= 0.9


def test_promises_are_lower_where_nothing_is_known(runs):
    model = SpeedModel(runs)
    known = SpeedSettings(256, 4, 2, "embree")
    unknown = replace(known, width=512, height=512)
    near, far = (model.speeds(situation(SETS[2]), [one]) for one in (known, unknown))
    assert far.promised[0] / far.expected[0] < 0.8 * near.promised[0] / near.expected[0]


def test_a_faster_processor_promises_more(runs):
    settings = [SpeedSettings(256, 4, 2, "embree")]
    slow, fast = (SpeedModel(runs).speeds(situation(SETS[0], Machine(4, speed)), settings) for speed in (500, 1000))
    np.testing.assert_allclose(fast.promised, 2 * slow.promised)


def test_too_few_runs_say_how_to_get_more(runs):
    with pytest.raises(ValueError, match=r"3 runs: a model of speed needs at least 12; pass explore=12"):
        choose(runs[:3], situation(SETS[0]), LIMITS)
    others = [replace(run, situation=replace(run.situation, workload="train")) for run in runs]
    with pytest.raises(ValueError, match="0 runs"):
        choose(others, situation(SETS[0]), LIMITS)


def test_candidates_fit_into_memory(monkeypatch):
    given = situation(SETS[-1])
    every = candidates(given, LIMITS)
    assert {one.threads for one in every} == {1, 2, 4} and {one.resident_scenes for one in every} == {1, 2, 4, 8}
    least = min(needed_bytes(given, one) for one in every)
    monkeypatch.setattr(tune, "available_memory", lambda: 4 * least)
    some = candidates(given, LIMITS)
    assert 0 < len(some) < len(every) and max(needed_bytes(given, one) for one in some) <= 0.8 * 4 * least
    monkeypatch.setattr(tune, "available_memory", lambda: least)
    with pytest.raises(ValueError, match="no settings fit"):
        candidates(given, LIMITS)


def test_runs_survive_the_log_and_hostile_lines_do_not(runs):
    assert Run.from_line(json.loads(json.dumps(runs[0].line()))) == runs[0]
    for path, value in (
        (("fps",), -1), (("fps",), "many"), (("situation",), 3), (("situation", "scenes", "triangles"), 1e300),
        (("situation", "machine", "calibration_mops"), 0), (("situation", "machine", "calibration_mops"), 1e-320),
        (("settings", "num_envs"), 0), (("settings", "other"), 1), (("situation", "machine", "cores"), None),
        (("situation", "scenes", "triangles"), float("nan")),
    ):  # fmt: skip
        line = json.loads(json.dumps(runs[0].line()))
        inner = line
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        assert Run.from_line(line) is None, path


def test_unknown_workloads_and_sensors_are_refused():
    with pytest.raises(ValueError, match="kind='walk'"):
        Workload("apartments", kind="walk")
    with pytest.raises(ValueError, match="sensors='normals': choose one of 'depth', 'rgb', 'semantic'"):
        Workload("apartments", ("depth", "normals"))


def test_small_batches_are_divided_into_no_more_parts_than_they_have_agents():
    given = replace(situation(SETS[0]), workload="train", num_parameters=1000)
    few = candidates(given, replace(LIMITS, num_envs=(1, 4)))
    assert {one.num_envs for one in few} == {1, 4}
    assert all(max(one.num_batches, one.num_minibatches) <= one.num_envs for one in few)


@pytest.mark.parametrize("log", ["off", "other.jsonl"])
def test_what_explore_measures_counts_wherever_the_log_is(tmp_path, monkeypatch, runs, log):
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", log if log == "off" else str(tmp_path / log))
    own = tmp_path / "own.jsonl"
    own.write_text("")
    monkeypatch.setattr(Workload, "situation", lambda self, has_gpu: situation(SETS[0]))
    rng = np.random.default_rng(3)
    monkeypatch.setattr(
        Workload, "measure", lambda self, one, seconds: Run(situation(SETS[0]), one, fps(situation(SETS[0]), one, rng))
    )
    command = ["tune", "--renderer", "embree", "--explore", "12", "--json"]
    for options in ([], ["--runs", str(own)]):
        done = CliRunner().invoke(app, [*command, *options])
        assert done.exit_code == 0, (done.output, done.exception)
        assert json.loads(done.stdout.splitlines()[-1])["runs"] == 12 and not own.read_text()
        (tmp_path / "other.jsonl").unlink(missing_ok=True)
    done = CliRunner().invoke(app, [*command, "--runs", str(tmp_path / "none.jsonl")])
    assert isinstance(done.exception, FileNotFoundError) and "there is no log of runs" in str(done.exception)


def test_runs_before_an_interruption_are_kept(tmp_path, monkeypatch):
    log = tmp_path / "runs.jsonl"
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(log))
    monkeypatch.setattr(Workload, "situation", lambda self, has_gpu: situation(SETS[0]))
    done = []

    def measure(self, settings, seconds):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(Run(situation(SETS[0]), settings, 100.0))
        return done[-1]

    monkeypatch.setattr(Workload, "measure", measure)
    CliRunner().invoke(app, ["tune", "--renderer", "embree", "--explore", "12"])
    assert [Run.from_line(line) for line in read_runs(log)] == done


def test_few_of_many_scenes_are_measured_although_no_other_is_loaded_yet():
    sources = [SceneSource(name, lambda name=name: box_room(name)) for name in ("first", "second", "third")]
    library = SceneLibrary(sources, num_active=1)
    assert library.num_slots == 2 and library.num_held == 1
    figures = _circumstances(library, Camera(32, 16), ("depth",), 4)
    assert figures["scenes"] == 3 and figures["resident_scenes"] == 1
    assert figures["triangles_per_scene"] == len(box_room().triangles)
    figures |= {"fps": 100.0, "calibration_mops": 500.0, "renderer": "embree", "device": "Embree"}
    run = bench_run(figures)
    assert run.settings == SpeedSettings(4, 1, figures["threads"], "embree", 32, 16)
    assert run.situation.scenes.num_scenes == 3


def test_a_training_without_images_has_no_renderer(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.run.presets import PRESETS

    preset = replace(PRESETS["cpu"], policy="scan", sensors=("walk_scan",), num_envs=2)
    env = preset.make_env(scenes="apartment_4")
    monkeypatch.setattr("gym_batchnav.env.cameras.make_renderer", lambda *given: pytest.fail("makes a renderer"))
    policy = make_policy("scan", env.single_observation_space)
    ppo = SimpleNamespace(collector=SimpleNamespace(envs=[env]), policy=policy)
    run = training_run(SimpleNamespace(ppo=ppo, preset=preset, threads=1, seconds=9.0), 100.0)
    env.close()
    assert (run.settings.renderer, run.situation.sensors, run.situation.machine.has_gpu) == ("none", (), False)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["step", "train"])
def test_the_command_explores_chooses_and_measures(tmp_path, monkeypatch, workload):
    log = tmp_path / "runs.jsonl"
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(log))
    command = ["tune", "--for", workload, "--scenes", "apartment_0", "--resolution", "32", "--json", "--measure"]
    command += [f"--num-envs={count}" for count in (8, 10, 12, 14, 16, 18, 20, 22)]
    done = CliRunner().invoke(app, [*command, "--explore", "12", "--seconds", "0.1"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["runs"] == len(read_runs(log)) - 1 == 12
    assert found["measured"] > 0 and found["choices"][0]["promised"] > 0
