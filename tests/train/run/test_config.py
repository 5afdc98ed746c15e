"""Run files, assignments, presets as files, loggers, and figures of several runs."""

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
for _name in ("safetensors", "tensorboard", "matplotlib"):
    pytest.importorskip(_name, reason=f"{_name} is not installed")

from matplotlib.figure import Figure  # noqa: E402
from PIL import Image  # noqa: E402

from gym_batchnav.geometry import Camera, CameraJitter  # noqa: E402
from gym_batchnav.lenses import Fisheye  # noqa: E402
from gym_batchnav.task.explore import Explore  # noqa: E402
from gym_batchnav.task.pointnav import PointNav  # noqa: E402
from gym_batchnav.train.ppo import PPOConfig  # noqa: E402
from gym_batchnav.train.run import loggers as loggers_module  # noqa: E402
from gym_batchnav.train.run.config import parse_assignment, read_config, with_changes  # noqa: E402
from gym_batchnav.train.run.log import draw_curve  # noqa: E402
from gym_batchnav.train.run.loggers import make_loggers  # noqa: E402
from gym_batchnav.train.run.plot import Curve, draw_curves, grouped, read_curve  # noqa: E402
from gym_batchnav.train.run.presets import FOLDER, PRESETS, Preset  # noqa: E402
from gym_batchnav.train.run.settings import (  # noqa: E402
    RunSettings,
    read_run_file,
    run_keywords,
    seconds_of,
    write_run_file,
)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("60m", 3600), ("2h", 7200), ("1.5h", 5400), (" 5M ", 300)])
def test_durations(text, seconds):
    assert seconds_of("time_limit", text) == seconds


@pytest.mark.parametrize("text", ["", "60", "m", "-5m", "0s", "1h30m", "1e3s", "nan s"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match=r"time_limit=.*: write a positive duration such as 90s, 60m or 2h"):
        seconds_of("time_limit", text)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("ppo.gamma=0.995", "ppo.gamma", 0.995),
        ("device = cuda", "device", "cuda"),
        ('scenes=["a", "b"]', "scenes", ["a", "b"]),
        ("ppo.autocast=true", "ppo.autocast", True),
        ("scenes=procedural:0-9?area=30", "scenes", "procedural:0-9?area=30"),
        ("a=", "a", ""),
    ],
)
def test_assignments(text, name, value):
    assert parse_assignment(text) == (name, value)


@pytest.mark.parametrize("text", ["gamma", "=3", ""])
def test_what_assigns_nothing(text):
    with pytest.raises(ValueError, match="write name=value"):
        parse_assignment(text)


class TestChanges:
    def test_they_reach_nested_fields_and_keep_the_others(self):
        changes = {"ppo.gamma": 0.5, "ppo.learning_rate": 1, "camera.width": 48, "threads": "none", "sensors": ["rgb"]}
        preset = with_changes(Preset(threads=3), changes)
        assert preset == Preset(
            ppo=PPOConfig(gamma=0.5, learning_rate=1.0), camera=Camera(48), threads=None, sensors=("rgb",)
        )
        assert isinstance(preset.ppo.learning_rate, float)

    def test_a_class_makes_another_object(self):
        changes = {"task.class": "Explore", "task.cell_size": 2.0}
        assert with_changes(Preset(), changes).task == Explore(cell_size=2.0)
        lens = with_changes(Preset(), {"camera.lens.class": "Fisheye", "camera.lens.fov_deg": 180.0}).camera.lens
        assert lens == Fisheye(fov_deg=180.0)

    def test_a_camera_without_jitter_gets_some(self):
        jitter = with_changes(Preset(), {"camera.jitter.eye_height": [0.9, 1.5]}).camera.jitter
        assert jitter == CameraJitter(eye_height=(0.9, 1.5))
        with pytest.raises(ValueError, match=r"camera\.jitter\.height"):
            with_changes(Preset(), {"camera.jitter.height": [0.9, 1.5]})

    @pytest.mark.parametrize(
        ("name", "value", "says"),
        [
            ("ppo.gama", 1, "there is no setting ppo.gama: did you mean ppo.gamma?"),
            ("zzz", 1, "there is no setting zzz: choose one of scenes, "),
            ("camera.width", "wide", "camera.width='wide': expected int"),
            ("camera.width", True, "camera.width=True: expected int"),
            ("scenes", "apartments", "scenes='apartments': expected tuple"),
            ("scenes", [1], "scenes=.1.: expected tuple"),
            ("ppo.gamma", 2, "gamma=2.0: pass a number from 0 to 1"),
            ("num_envs.x", 1, "num_envs=256 has no fields"),
            ("task.class", "Walk", "task.class='Walk': choose one of PointNav"),
            ("task.class", ["Explore"], r"task.class=\['Explore'\]: choose one of PointNav"),
            ("camera.lens.class", "Mirror", "camera.lens: 'Mirror' cannot be made from a file"),
            ("task", "Explore", "task='Explore': expected"),
        ],
    )
    def test_errors_name_the_setting_and_the_remedy(self, name, value, says):
        with pytest.raises(ValueError, match=says):
            with_changes(Preset(), {name: value})

    def test_a_seed_beyond_32_bits_is_refused(self):
        with pytest.raises(ValueError, match=r"seed=4294967296: pass a whole number from 0 to 2\*\*32 - 1"):
            RunSettings(seed=2**32)

    def test_a_run_refuses_them_before_it_begins(self):
        with pytest.raises(ValueError, match=r"did you mean ppo\.clip"):
            RunSettings(changes={"ppo.clipp": 0.1})


class TestFiles:
    def test_a_file_describes_a_run(self, tmp_path):
        (tmp_path / "run.toml").write_text(
            'preset = "cpu"\nseed = 3\ntime_limit = "90m"\nscenes = ["a.glb"]\nnum_episodes = 7\n'
            '[camera]\nwidth = 64\n[task]\nclass = "Explore"\n'
        )
        settings = RunSettings(**run_keywords(read_config(tmp_path / "run.toml")))
        assert (settings.seed, settings.time_limit, settings.scenes) == (3, 5400.0, ("a.glb",))
        preset = settings.resolved()
        assert (preset.num_episodes, preset.camera.width, preset.camera.height) == (7, 64, 32)
        assert preset.task == Explore() and preset.ppo.gamma == PRESETS["cpu"].ppo.gamma

    def test_the_file_of_a_run_describes_the_same_run(self, tmp_path):
        settings = RunSettings("cpu", seed=4, num_envs=9, frames=100, changes={"ppo.gamma": 0.5, "sensors": ["rgb"]})
        write_run_file(tmp_path, settings)
        again = RunSettings(**run_keywords(read_config(tmp_path / "run.json")))
        assert again == settings and again.resolved() == settings.resolved()

    @pytest.mark.parametrize("changes", [3, ["a"], "a"])
    def test_the_damaged_file_of_a_run_is_named(self, tmp_path, changes):
        write_run_file(tmp_path, RunSettings())
        stored = json.loads((tmp_path / "run.json").read_text())
        stored["settings"]["changes"] = changes
        (tmp_path / "run.json").write_text(json.dumps(stored))
        with pytest.raises(ValueError, match=r"run\.json' is damaged .*: pass another out="):
            read_run_file(tmp_path)

    @pytest.mark.parametrize(
        ("name", "text", "says"),
        [
            ("run.toml", "seed = ", "is not TOML"),
            ("run.json", "[]", "is not the run.json of a run"),
            ("run.json", '{"settings": 3}', "is not the run.json of a run"),
            ("run.toml", "#" * 2_000_000, "a run file has at most"),
        ],
    )
    def test_damaged_files(self, tmp_path, name, text, says):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=says):
            read_config(tmp_path / name)

    def test_a_line_of_a_curve_that_is_not_text_is_named(self, tmp_path):
        row = b'{"frames": 1, "seconds": 2.5, "spl": 0.5}\n'
        (tmp_path / "curve.jsonl").write_bytes(row + b'{"frames": \xff}\n')
        with pytest.raises(ValueError, match=r"curve\.jsonl', line 2, is damaged"):
            read_curve(tmp_path, "spl", "frames")
        (tmp_path / "curve.jsonl").write_bytes(row + b'{"frames": \xff')  # a run may be writing it
        assert len(read_curve(tmp_path, "spl", "frames").rows) == 1

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no run file"):
            read_config(tmp_path / "run.toml")

    def test_values_of_the_wrong_type(self):
        for names in ({"seed": "one"}, {"num_envs": 1.5}, {"time_limit": [1]}, {"scenes": "a.glb"}):
            with pytest.raises(ValueError, match=rf"{next(iter(names))}=.*: expected"):
                run_keywords(names)


class TestPresets:
    def test_the_paper_is_in_its_files(self):
        depth, rgb = PRESETS["paper-depth"], PRESETS["paper-rgb"]
        assert (
            depth.ppo == rgb.ppo == PPOConfig(bootstrap_timeouts=False, autocast=True, channels_last=True, compile=True)
        )
        assert depth.task == rgb.task == PointNav.bps_paper() and depth.device == rgb.device == "cuda"
        assert (depth.num_envs, depth.resident_scenes, depth.sensors) == (512, 16, ("depth",))
        assert (rgb.num_envs, rgb.resident_scenes, rgb.sensors) == (128, 4, ("rgb",))

    def test_a_preset_goes_on_where_its_base_ends(self):
        cpu, gpu = PRESETS["cpu"], PRESETS["gpu"]
        assert gpu.scenes == cpu.scenes and gpu.num_episodes == cpu.num_episodes
        assert (cpu.camera.width, gpu.camera.width) == (32, 64)
        assert gpu.ppo.optimizer == "lamb" and gpu.ppo.total_frames == 500_000_000

    @pytest.mark.parametrize("name", PRESETS)
    def test_the_file_of_a_preset_is_a_run_file(self, name):
        settings = RunSettings(**run_keywords(read_config(FOLDER / f"{name}.toml")))
        assert settings.resolved() == PRESETS[name]

    def test_none_keeps_what_the_preset_has(self):
        given = {"scenes": "none", "threads": "none", "time_limit": "2h"}
        assert RunSettings(**run_keywords(given)).resolved() == PRESETS["cpu"]


class TestLoggers:
    def test_weights_and_biases_gets_every_line_and_one_identity(self, tmp_path, monkeypatch):
        calls = []

        class Run:
            def log(self, numbers, step):
                calls.append((numbers, step))

            def finish(self):
                calls.append("finished")

        def init(**keywords):
            calls.append(keywords)
            return Run()

        monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
        for _ in range(2):
            (logger,) = make_loggers(["wandb", "jsonl"], tmp_path, {"seed": 1}, 0)
            logger.log({"spl": 0.5}, 100)
            logger.close()
        assert calls[0] == calls[3] and calls[0]["config"] == {"seed": 1} and calls[0]["resume"] == "allow"
        assert calls[1:3] == [({"spl": 0.5, "frames": 100}, 100), "finished"]

    def test_unknown_and_missing_ones(self, tmp_path, monkeypatch):
        with pytest.raises(ValueError, match="logger='comet': choose one of"):
            make_loggers(["comet"], tmp_path, {}, 0)
        monkeypatch.setitem(sys.modules, "wandb", None)
        with pytest.raises(ModuleNotFoundError, match=r"gym-batchnav\[wandb\]"):
            make_loggers(["wandb"], tmp_path, {}, 0)
        assert make_loggers(["jsonl"], tmp_path, {}, 0) == []

    def test_the_first_is_closed_if_the_second_cannot_be_opened(self, tmp_path, monkeypatch):
        closed = []
        monkeypatch.setattr(loggers_module.TensorBoardLogger, "__init__", lambda self, folder, frames: None)
        monkeypatch.setattr(loggers_module.TensorBoardLogger, "close", lambda self: closed.append(self))
        monkeypatch.setitem(sys.modules, "wandb", None)
        with pytest.raises(ModuleNotFoundError, match=r"gym-batchnav\[wandb\]"):
            make_loggers(["tensorboard", "wandb"], tmp_path, {}, 0)
        assert len(closed) == 1


def write_run(folder, seed, gamma, values):
    folder.mkdir()
    write_run_file(folder, RunSettings(seed=seed, changes={"ppo.gamma": gamma}))
    rows = [{"frames": 1_000_000 * i, "seconds": 360.0 * i, "spl": one} for i, one in enumerate(values)]
    (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


class TestPlot:
    def test_seeds_become_one_curve(self, tmp_path):
        folders = [
            write_run(tmp_path / "a0", 0, 0.9, [0.0, 0.4, None, 0.8]),
            write_run(tmp_path / "b", 0, 0.5, [0.0, 0.1]),
            write_run(tmp_path / "a1", 1, 0.9, [0.2, 0.6]),
        ]
        curves = [read_curve(folder, "spl", "hours") for folder in folders]
        assert [[one.name for one in group] for group in grouped(curves)] == [["a0", "a1"], ["b"]]
        np.testing.assert_allclose(curves[0].x, [0.0, 0.1, 0.3])
        draw_curves(curves, tmp_path / "curves.png", "spl", "hours")
        assert Image.open(tmp_path / "curves.png").size == (960, 540)

    def test_the_legend_of_a_training_hides_no_curve(self, tmp_path, monkeypatch):
        drawn = []
        save = Figure.savefig
        monkeypatch.setattr(Figure, "savefig", lambda *given, **more: drawn.append(given[0]) or save(*given, **more))
        row = {"success": 0.2, "spl": 0.1, "soft_spl": 0.3, "losses": {"teacher": 0.5}}
        draw_curve([{**row, "frames": 10**6 * number} for number in range(4)], tmp_path / "curve.png", "cpu: small")
        (figure,) = drawn
        (axes,) = figure.axes
        assert len(figure.legends[0].get_texts()) == 4 and axes.get_legend() is None
        assert not figure.legends[0].get_window_extent().overlaps(axes.get_window_extent())

    def test_a_measure_other_than_success_has_its_own_range(self, tmp_path, monkeypatch):
        drawn = []
        save = Figure.savefig
        monkeypatch.setattr(Figure, "savefig", lambda *given, **more: drawn.append(given[0]) or save(*given, **more))
        rows = [{"frames": k * 10**6, "cells_visited": -k, "losses": {}} for k in range(4)]
        draw_curve(rows, tmp_path / "curve.png", "cpu: small", ("cells_visited",))
        draw_curve(rows, tmp_path / "none.png", "cpu: small", ())
        axes, empty = (figure.axes[0] for figure in drawn)
        assert axes.lines[0].get_ydata().tolist() == [0, -1, -2, -3] and axes.get_ylim()[0] < -3
        assert not empty.lines

    def test_seeds_without_a_common_range_are_named(self):
        none = [Curve(name, "same", np.array(x), np.zeros(2), []) for name, x in (("a", [0, 1]), ("b", [2, 3]))]
        with pytest.raises(ValueError, match="the runs a, b differ in their seed alone"):
            draw_curves(none, Path("never.png"), "spl", "hours")

    def test_what_cannot_be_drawn(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no run in"):
            read_curve(tmp_path, "spl", "frames")
        folder = write_run(tmp_path / "a", 0, 0.9, [0.5])
        with pytest.raises(ValueError, match="has no measure 'sucess': choose one of frames, seconds, spl"):
            read_curve(folder, "sucess", "frames")

    @pytest.mark.parametrize("line", ["[1]", "3", '{"frames": 1}', '{"frames": "1", "seconds": 1}', "[" * 10_000])
    def test_lines_that_are_none_of_a_curve_are_named(self, tmp_path, line):
        folder = write_run(tmp_path / "a", 0, 0.9, [0.5])
        with (folder / "curve.jsonl").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(ValueError, match=r"curve\.jsonl', line 2, is damaged"):
            read_curve(folder, "spl", "frames")
