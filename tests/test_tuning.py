"""Choosing fast settings: the model against a machine whose speed is a formula, the log, and the command."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from gym_batchnav import tuning
from gym_batchnav.cli import app
from gym_batchnav.system.extras import MissingExtraError
from gym_batchnav.tuning import (
    Run,
    Situation,
    SpeedModel,
    SpeedSettings,
    Workload,
    candidates,
    choose,
    defaults,
    needed_bytes,
    read_runs,
    record_run,
    runs_file,
)

SETS = [(8, triangles, 4 * triangles, 10.0) for triangles in (3e3, 1e4, 3e4, 1e5, 3e5)]
SETTINGS = SpeedSettings(256, 4, 2, "embree")


def situation(scenes, speed=500.0):
    return Situation(("depth",), scenes, 4, speed)


def fps(given, settings, rng=None):
    """A machine with a fixed cost per step and per ray; caches are missed by large batches."""
    rays = settings.num_envs * settings.width * settings.height
    cost = 50e-9 * math.log2(given.scenes[1]) / settings.threads**0.9
    seconds = 2e-3 + rays * cost * (1 + (settings.num_envs / 1500) ** 2)
    noise = 1.0 if rng is None else math.exp(rng.normal(0, 0.05))
    return settings.num_envs / seconds * noise * given.calibration_mops / 500


def runs_on(sets, count, rng):
    runs = []
    for scenes in sets:
        settings = candidates(situation(scenes), "embree")
        for row in rng.choice(len(settings), count, replace=False).tolist():
            runs.append(Run(situation(scenes), settings[row], fps(situation(scenes), settings[row], rng), 2.0))
    return runs


@pytest.fixture(scope="module")
def runs():
    return runs_on(SETS[:2] + SETS[3:], 15, np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(runs):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    return SpeedModel(runs)


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "a folder" / "runs.jsonl"
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(path))
    return path


def test_the_choice_for_scenes_without_a_run_is_nearly_the_fastest(runs, model):
    given = situation(SETS[2])
    settings = candidates(given, "embree")
    best = max(fps(given, one) for one in settings)
    choices = choose(runs, given, settings, 3)
    assert fps(given, choices[0].settings) > 0.9 * best
    assert [one.promised for one in choices] == sorted((one.promised for one in choices), reverse=True)
    assert all(one.promised <= one.expected for one in choices)


def test_nine_of_ten_promises_hold_for_scenes_without_a_run(model):
    others = runs_on(SETS[2:3], 32, np.random.default_rng(1))
    held = [model.speeds(run.situation, [run.settings])[1][0] <= run.fps for run in others]
    assert np.mean(held) >= 0.9


def test_promises_are_lower_where_nothing_is_known(model):
    unknown = replace(SETTINGS, width=512, height=512)
    near, far = (model.speeds(situation(SETS[2]), [one]) for one in (SETTINGS, unknown))
    assert far[1][0] / far[0][0] < 0.8 * near[1][0] / near[0][0]


def test_a_faster_processor_promises_more(model):
    slow, fast = (model.speeds(situation(SETS[0], speed), [SETTINGS])[1] for speed in (500, 1000))
    np.testing.assert_allclose(fast, 2 * slow)


def test_too_few_runs_say_how_to_get_more(runs):
    with pytest.raises(ValueError, match=r"3 runs: .* at least 12; run gym-batchnav tune --explore 12"):
        choose(runs[:3], situation(SETS[0]), [SETTINGS])


def test_candidates_fit_into_memory(monkeypatch):
    given = situation(SETS[-1])
    every = candidates(given, "embree")
    assert {one.threads for one in every} == {1, 2, 4} and {one.resident_scenes for one in every} == {1, 2, 4, 8}
    few = candidates(given, "embree", num_envs=(3,))
    assert {(one.num_envs, one.resident_scenes) for one in few} == {(3, 1), (3, 2)}
    assert {one.renderer for name in ("opengl", "warp") for one in candidates(given, name)} == {"opengl", "warp"}
    least = min(needed_bytes(given, one) for one in every)
    monkeypatch.setattr(tuning, "available_memory", lambda: 4 * least)
    some = candidates(given, "embree")
    assert 0 < len(some) < len(every) and max(needed_bytes(given, one) for one in some) <= 0.8 * 4 * least
    monkeypatch.setattr(tuning, "available_memory", lambda: least)
    with pytest.raises(ValueError, match="no settings fit"):
        candidates(given, "embree")


def test_the_defaults_are_those_of_a_batch_without_keywords():
    assert defaults(situation(SETS[0]), "embree") == SpeedSettings(256, 8, 4, "embree")
    assert defaults(situation((100, 3e3, 0.0, 10.0)), "embree").resident_scenes == 8
    assert Workload("apartments").situation(cores=1).scenes[0] > 1


def test_unknown_sensors_are_refused():
    with pytest.raises(ValueError, match="sensors='normals': choose one of 'depth', 'rgb', 'semantic'"):
        Workload("apartments", ("depth", "normals"))


def test_runs_survive_the_log_and_other_lines_do_not(log, runs):
    assert record_run(runs[0])
    good = log.read_text().strip()
    for path, value in (
        (("fps",), -1), (("fps",), "many"), (("situation",), 3), (("situation", "scenes"), [8, 1e400, 0, 10.0]),
        (("situation", "calibration_mops"), 0), (("situation", "calibration_mops"), 1e-320),
        (("settings", "num_envs"), 0), (("settings", "other"), 1), (("situation", "cores"), None),
        (("situation", "scenes"), [8, float("nan"), 0, 10.0]), (("situation", "scenes"), [8]),
    ):  # fmt: skip
        line = json.loads(good)
        inner = line
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        with log.open("a") as file:
            print(json.dumps(line), file=file)
    with log.open("ab") as file:
        file.write(b'[1, 2]\n\xff\xfe\n{"fps": NaN\n' + b"[" * 100_000 + b'\n{"fps": 3')  # a process that was killed
    assert record_run(runs[1])
    assert read_runs(log) == runs[:2]


def test_a_log_that_cannot_be_written_or_is_off_fails_no_run(tmp_path, monkeypatch, runs):
    assert runs_file() is None and not record_run(runs[0])  # as in all tests
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(tmp_path / "file" / "runs.jsonl"))
    assert not record_run(runs[0])
    monkeypatch.delenv("GYM_BATCHNAV_RUNS")
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path))
    assert runs_file() == tmp_path / "runs.jsonl"
    with pytest.raises(FileNotFoundError, match="there is no log of runs"):
        read_runs(tmp_path / "runs.jsonl")
    monkeypatch.setattr(tuning, "MAX_LOG_BYTES", 3)
    (tmp_path / "runs.jsonl").write_text("1234")
    with pytest.raises(ValueError, match="keep its newest lines only"):
        read_runs(tmp_path / "runs.jsonl")


def test_the_command_measures_only_what_it_must(log, tmp_path, monkeypatch, model):
    rng = np.random.default_rng(3)
    measured = []

    def measure(self, given, settings, seconds):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(Run(given, settings, fps(given, settings, rng), 1.0))
        return measured[-1]

    monkeypatch.setattr(Workload, "situation", lambda self, has_gpu: situation(SETS[0]))
    monkeypatch.setattr(Workload, "measure", measure)
    with monkeypatch.context() as patch, pytest.raises(MissingExtraError, match="tune needs the extra"):
        patch.setitem(sys.modules, "sklearn.gaussian_process", None)
        CliRunner().invoke(app, ["tune"], catch_exceptions=False)
    assert not measured
    CliRunner().invoke(app, ["tune"])
    assert read_runs(log) == measured and len(measured) == 3  # those before an interruption are kept
    rest = iter(range(99))
    monkeypatch.setattr(
        Workload, "measure", lambda self, given, one, seconds: Run(given, one, next(rest) + fps(given, one, rng))
    )
    done = CliRunner().invoke(app, ["tune"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "from 15 runs" in done.stdout and len(read_runs(log)) == 3 + 12 and "defaults" not in done.stdout
    assert len({run.settings for run in read_runs(log)}) == 15  # none is measured twice
    done = CliRunner().invoke(app, ["tune", "--measure"], env={"COLUMNS": "200"})
    usual = defaults(situation(SETS[0]), "embree")
    (line,) = (line for line in done.stdout.splitlines() if "defaults" in line)
    cells = [cell.strip() for cell in line.split("│")[2:5]]
    assert cells == [str(usual.num_envs), str(usual.resident_scenes), str(usual.threads)]
    assert "from 15 runs" in done.stdout and len(read_runs(log)) == 17
