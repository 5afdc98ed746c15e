"""Kernels compiled ahead by other processes, and the line that announces compiling."""

import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from numba.core import event
from typer.testing import CliRunner

from gym_batchnav.cli import app
from gym_batchnav.library.warmup import batch_workloads
from gym_batchnav.system import compilation
from gym_batchnav.system.compilation import Workload, compile_ahead

MODULE = """
import os
from pathlib import Path

def note(folder, name):
    Path(folder, f"{name}-{os.getpid()}").touch()

def fail():
    raise ValueError("no such kernel")

def die():
    os._exit(3)
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A module of workloads, and a new cache."""
    (tmp_path / "workloads_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("gym_batchnav.system.compilation.cache_directory", lambda: tmp_path / "cache")
    import workloads_of_a_test

    yield workloads_of_a_test
    del sys.modules["workloads_of_a_test"]


def notes(folder, name):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(name))


def test_each_workload_runs_once_in_another_process(work, tmp_path):
    workloads = [Workload(name, work.note, (str(tmp_path), name)) for name in ("first", "second", "third")]
    assert compile_ahead(workloads, processes=2).num_workloads == 3
    assert compile_ahead(workloads, processes=2).num_workloads == 0
    runs = [note for name in ("first", "second", "third") for note in notes(tmp_path, name)]
    assert len(runs) == 3
    processes = {run.split("-")[1] for run in runs}
    assert str(os.getpid()) not in processes and len(processes) <= 2


@pytest.mark.parametrize(("function", "why"), [("fail", "no such kernel"), ("die", "exit 3")])
def test_a_workload_that_fails_costs_a_warning_and_is_tried_again(work, tmp_path, function, why):
    workloads = [Workload("drawing", getattr(work, function)), Workload("walking", work.note, (str(tmp_path), "other"))]
    with pytest.warns(UserWarning, match=f"drawing: .*{why}"):
        compiled = compile_ahead(workloads, processes=2)
    assert compiled.num_workloads == 1
    (failure,) = compiled.failures
    assert failure.startswith("drawing: ") and why in failure
    assert len(notes(tmp_path, "other")) == 1
    with pytest.warns(UserWarning, match=why):
        assert compile_ahead(workloads, processes=1).num_workloads == 0


def test_warmup_names_what_failed_and_fails(work, tmp_path, monkeypatch, recwarn):
    workloads = [Workload("drawing", work.fail), Workload("walking", work.note, (str(tmp_path), "other"))]
    monkeypatch.setattr("gym_batchnav.library.warmup.warm_up", lambda *_: compile_ahead(workloads, processes=1))
    for arguments in (["warmup"], ["warmup", "--json"]):
        done = CliRunner().invoke(app, arguments)
        assert isinstance(done.exception, RuntimeError) and done.exit_code == 1
        assert "these kernels cannot be compiled: drawing: ValueError: no such kernel" in str(done.exception)
        assert "ompiled all" not in done.stdout and not [one for one in recwarn if "compiled" in str(one.message)]
    assert json.loads(done.stdout)["failed"] == ["drawing: ValueError: no such kernel"]


def test_workloads_do_not_count_where_numba_compiles_nothing(work, tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "_config", lambda name: 1 if name == "DISABLE_JIT" else "")
    assert compile_ahead([Workload("first", work.note, (str(tmp_path), "first"))]).num_workloads == 0


def test_a_workload_counts_as_failed_if_no_process_starts(work, tmp_path, monkeypatch):
    def start(*_, **__):
        raise OSError("no memory")

    monkeypatch.setattr(subprocess, "Popen", start)
    workloads = [Workload(name, work.note, (str(tmp_path), name)) for name in ("first", "second")]
    with pytest.warns(UserWarning, match="no memory"):
        compiled = compile_ahead(workloads, processes=1)
    assert compiled.num_workloads == 0
    assert compiled.failures == tuple(
        f"{name}: the process that compiles kernels cannot be started: no memory" for name in ("first", "second")
    )


@pytest.mark.parametrize(
    ("module", "patience", "announced"),
    [("gym_batchnav.navmesh", 0.01, True), ("gym_batchnav.navmesh", 3600.0, False), ("somebody_else", 0.01, False)],
)
def test_compiling_that_lasts_is_announced_on_standard_error(module, patience, announced, monkeypatch, capfd):
    monkeypatch.setattr(compilation, "PATIENCE", patience)
    monkeypatch.delenv("GYM_BATCHNAV_ANNOUNCES_COMPILING", raising=False)
    kernel = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    announcer = compilation.announce_compiling()
    try:
        with event.trigger_event("numba:compile", data={"dispatcher": kernel}):
            said = ""
            while announced and "gym-batchnav warmup" not in said:  # a hang if it is never announced
                time.sleep(0.01)
                said += capfd.readouterr().err
    finally:
        event.unregister("numba:compile", announcer)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    captured = capfd.readouterr()
    assert not captured.out and ("gym-batchnav warmup" in said + captured.err) == announced


def test_lenses_are_compiled_for_the_renderer_that_draws_them():
    works = batch_workloads("warp", ("rgb",), lenses=True)
    assert {work.arguments[0] for work in works if work.title.startswith("drawing")} == {"warp"}
