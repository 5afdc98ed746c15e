"""The kit for GPU machines: results and processes of stages that time out, the table, and the help."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

KIT = Path(__file__).parents[1] / "benchmarks" / "gpu"
pytestmark = pytest.mark.slow
STAGES = ["system", "cpu", "tests", "render", "step", "train", "peers", "profile"]


@pytest.fixture
def kit(monkeypatch, tmp_path):
    """The kit's driver, with results and stages in a folder of their own."""
    monkeypatch.syspath_prepend(str(KIT))
    for name in ("figures", "kit"):
        spec = importlib.util.spec_from_file_location(name, KIT / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        monkeypatch.setattr(module, "OUT", tmp_path)
    module.HERE = tmp_path
    return module


def stage(folder, program):
    (folder / "stage_system.py").write_text(
        f"import sys; sys.path.insert(0, {str(KIT)!r})\nimport time, figures\n"
        f"figures.OUT = figures.Path({str(folder)!r})\nreport = figures.Report('system')\n{program}"
    )


def run_stage(kit, folder, program, limit, small=True):
    """Run a program as a stage; return what the kit says of its end, and its results."""
    stage(folder, program)
    with (folder / "log.txt").open("w") as log:
        ended = kit.run_stage("system", limit, small, log)
    return ended, [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_a_stage_that_is_cut_off_leaves_what_it_had_found(kit, tmp_path):
    program = "report.figure('speed', 7.0, 'frames/s', bar=5)\nprint('going on')\ntime.sleep(3600)"
    ended, (line,) = run_stage(kit, tmp_path, program, 4.0)
    assert ended["status"] == "timed out" and ended["seconds"] >= 4
    assert line["value"] == 7.0 and line["met"] and "going on" in (tmp_path / "log.txt").read_text()


def is_running(process):
    """Return whether a process runs; one that nobody has waited for has ended too."""
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


def wait_for_end(process):
    """Wait until a killed process has ended."""
    deadline = time.monotonic() + 300
    while is_running(process):
        assert time.monotonic() < deadline, "the process is still running"
        time.sleep(0.02)


def test_a_stage_that_times_out_leaves_no_process_behind(kit, tmp_path):
    program = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "report.figure('child', child.pid)\ntime.sleep(3600)"
    )
    ended, (line,) = run_stage(kit, tmp_path, program, 4.0)
    assert ended["status"] == "timed out"
    wait_for_end(line["value"])


def test_the_kit_does_not_wait_for_a_process_that_keeps_the_output_open(kit, tmp_path, monkeypatch):
    monkeypatch.setattr(kit, "READER_SECONDS", 0.2)
    program = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "report.figure('child', child.pid)"
    )
    ended, (line,) = run_stage(kit, tmp_path, program, 600.0)
    psutil.Process(line["value"]).kill()
    assert ended["status"] == "ok"


def test_tests_that_time_out_are_killed_with_their_children(kit, tmp_path):
    sys.modules.pop("stage_tests", None)
    import stage_tests

    file = tmp_path / "child"
    script = f"sleep 3600 & echo $! > {file}; wait"
    tests = stage_tests.Tests("a long test", prefix=("sh", "-c", script))
    while not (file.is_file() and file.read_text()):
        time.sleep(0.02)
    report = SimpleNamespace(failed=False, figure=lambda what, value, note: None)
    tests.finish(report, 0.0)
    assert report.failed
    wait_for_end(int(file.read_text()))


def test_an_unknown_stage_is_an_error_that_lists_the_stages(kit, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kit.py", "sytem"])
    with pytest.raises(SystemExit):
        kit.main()
    assert "'sytem': choose from system, cpu" in capsys.readouterr().err


def test_a_part_that_fails_is_named_and_the_next_one_runs(kit, tmp_path):
    program = (
        "with report.part('first'):\n    raise ValueError('no such house')\n"
        "with report.part('second'):\n    report.figure('size', 9, bar=8, at_most=True)\nreport.end()"
    )
    ended, (first, second) = run_stage(kit, tmp_path, program, 60.0, small=False)
    assert ended["status"] == "failed (1)"
    assert first["value"] is None and "no such house" in first["note"]
    assert second["value"] == 9 and not second["met"]


def test_the_table_has_every_figure_and_names_the_bars_that_were_missed(kit):
    common = {"stage": "render", "unit": "frames/s", "note": "on cuda"}
    text = kit.table(
        [
            {**common, "what": "depth", "value": 612345.6, "bar": 500000, "at_most": False, "met": True},
            {**common, "what": "RGB", "value": 1234.0, "bar": 150000, "at_most": False, "met": False},
            {**common, "what": "peer", "value": None},
            {"stage": "render", "status": "timed out", "seconds": 90.0, "limit": 90.0},
        ]
    )
    assert "612,346 frames/s" in text and ">= 500,000" in text
    assert "1 of 2 bars met" in text and "NOT MET render: RGB" in text
    assert "timed out" in text


def test_every_stage_has_a_program_a_limit_and_a_line_of_help(kit):
    assert list(kit.LIMITS) == STAGES
    said = subprocess.run(["bash", str(KIT / "run.sh"), "--help"], capture_output=True, text=True, check=True).stdout
    for name in [*STAGES, *kit.ON_REQUEST]:
        assert (KIT / f"stage_{name}.py").is_file()
        assert f"\n  {name} " in said
    assert all(f"\n  {name} " in said for name in ("OUT", "BUDGET", "RUN", "LEARN"))
    assert not said.startswith("#") and "set -euo" not in said
    packing = subprocess.run(["bash", str(KIT / "pack.sh"), "--help"], capture_output=True, text=True, check=True)
    assert "40 MiB" in packing.stdout and "set -euo" not in packing.stdout


def test_a_run_without_the_packed_folder_says_what_to_run(tmp_path):
    done = subprocess.run(
        ["bash", str(KIT / "run.sh"), "system"],
        env={"PATH": "/usr/bin:/bin", "KIT": str(tmp_path), "WORK": str(tmp_path), "OUT": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "run bash benchmarks/gpu/pack.sh" in done.stdout
