"""Learning curves: their lines, loggers, and figures of several runs."""

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

from gym_batchnav.train import loggers as loggers_module  # noqa: E402
from gym_batchnav.train.config import make_config  # noqa: E402
from gym_batchnav.train.curve import (  # noqa: E402
    Curve,
    Sums,
    cut_curve,
    draw_curve,
    draw_curves,
    grouped,
    read_curve,
    read_rows,
    row_of,
)
from gym_batchnav.train.loggers import check_loggers, make_loggers  # noqa: E402
from gym_batchnav.train.run import write_run_file  # noqa: E402


class TestCurve:
    def test_a_line_tells_means_and_rates(self):
        window = Sums()
        episodes = {"success": np.array([1.0, 0.0, 1.0]), "spl": np.array([0.5, 0.0, 1.0])}
        window.add(100, {"infer": 0.5, "learn": 1.0}, {"value": 2.0, "kl": 0.5}, episodes)
        window.add(300, {"infer": 1.5, "learn": 1.0}, {"value": 4.0}, {name: one[:0] for name, one in episodes.items()})
        row = row_of(window, frames=1000, seconds=12.0, wall=5.0)
        assert row == {
            "frames": 1000, "seconds": 12.0, "fps": 80.0, "episodes": 3,
            "success": pytest.approx(2 / 3), "spl": pytest.approx(0.5),
            "losses": {"value": 3.0, "kl": 0.5},
            "parts": {"infer": pytest.approx(5000.0), "learn": pytest.approx(5000.0)},
        }  # fmt: skip

        window = Sums()
        window.add(10, {}, {}, {"success": np.zeros(0)})
        assert row_of(window, 10, 1.0, 1.0)["success"] is None  # without episodes nothing is claimed

    def test_damage_inside_is_an_error(self, tmp_path):
        path = tmp_path / "curve.jsonl"
        assert cut_curve(path, 5) == []
        path.write_text('{"frames": 1, "seconds": 1}\n{"fra\n{"frames": 3, "seconds": 3}\n')
        with pytest.raises(ValueError, match="line 2, is damaged"):
            read_rows(path)
        path.write_text('{"frames": 1, "seconds": 1, "spl": 1' + 400 * "0" + "}\n")
        with pytest.raises(ValueError, match="line 1, is damaged"):  # no float can hold it
            read_rows(path)

    def test_a_line_of_a_curve_that_is_not_text_is_named(self, tmp_path):
        row = b'{"frames": 1, "seconds": 2.5, "spl": 0.5}\n'
        (tmp_path / "curve.jsonl").write_bytes(row + b'{"frames": \xff}\n')
        with pytest.raises(ValueError, match=r"curve\.jsonl', line 2, is damaged"):
            read_curve(tmp_path, "spl", "frames")
        (tmp_path / "curve.jsonl").write_bytes(row + b'{"frames": \xff')  # a run may be writing it
        assert len(read_curve(str(tmp_path), "spl", "frames").rows) == 1


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

    def test_the_first_is_closed_if_the_second_is_unknown_or_not_installed(self, tmp_path, monkeypatch):
        closed = []
        monkeypatch.setattr(loggers_module.TensorBoardLogger, "__init__", lambda self, folder, frames: None)
        monkeypatch.setattr(loggers_module.TensorBoardLogger, "close", lambda self: closed.append(self))
        monkeypatch.setitem(sys.modules, "wandb", None)
        with pytest.raises(ModuleNotFoundError, match=r"gym-batchnav\[wandb\]"):
            make_loggers(["tensorboard", "wandb"], tmp_path, {}, 0)
        assert len(closed) == 1
        with pytest.raises(ValueError, match="logger='comet': choose one of"):
            check_loggers(["comet"])


def write_run(folder, seed, gamma, values):
    folder.mkdir()
    given = {"seed": seed, "ppo.gamma": gamma}
    write_run_file(folder, given, make_config(given))
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
        with pytest.raises(ValueError, match="the runs a, b differ only in their seed"):
            draw_curves(none, Path("never.png"), "spl", "hours")

    def test_what_cannot_be_drawn(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no run in"):
            read_curve(tmp_path, "spl", "frames")
        folder = write_run(tmp_path / "a", 0, 0.9, [0.5])
        with pytest.raises(ValueError, match="has no measure 'sucess': choose one of frames, seconds, spl"):
            read_curve(folder, "sucess", "frames")
        with pytest.raises(ValueError, match="by='steps': choose one of 'frames', 'hours'"):
            read_curve(folder, "spl", "steps")

    @pytest.mark.parametrize("line", ["3", '{"frames": 1}', '{"frames": "1", "seconds": 1}', "[" * 10_000])
    def test_lines_that_are_none_of_a_curve_are_named(self, tmp_path, line):
        folder = write_run(tmp_path / "a", 0, 0.9, [0.5])
        with (folder / "curve.jsonl").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(ValueError, match=r"curve\.jsonl', line 2, is damaged"):
            read_curve(folder, "spl", "frames")
