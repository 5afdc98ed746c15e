"""The kit for a GPU machine: what is left of a run that is cut off, its table, and its help."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

KIT = Path(__file__).parents[1] / "benchmarks" / "gpu"
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


def results(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_a_stage_that_is_cut_off_leaves_what_it_had_found(kit, tmp_path):
    stage(tmp_path, "report.figure('speed', 7.0, 'frames/s', bar=5)\nprint('going on')\ntime.sleep(60)")
    with (tmp_path / "log.txt").open("w") as log:
        ended = kit.run_stage("system", 4.0, True, log)
    assert ended["status"] == "timed out" and 4 <= ended["seconds"] < 20
    (line,) = results(tmp_path)
    assert line["value"] == 7.0 and line["met"] and "going on" in (tmp_path / "log.txt").read_text()


def test_a_part_that_fails_is_named_and_the_next_one_runs(kit, tmp_path):
    program = (
        "with report.part('first'):\n    raise ValueError('no such house')\n"
        "with report.part('second'):\n    report.figure('size', 9, bar=8, at_most=True)\nreport.end()"
    )
    stage(tmp_path, program)
    with (tmp_path / "log.txt").open("w") as log:
        assert kit.run_stage("system", 60.0, False, log)["status"] == "failed (1)"
    first, second = results(tmp_path)
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
    for name in [*STAGES, *kit.ASKED_FOR]:
        assert (KIT / f"stage_{name}.py").is_file()
        assert f"\n  {name} " in said
    assert "OUT" in said and "BUDGET" in said and not said.startswith("#") and "set -euo" not in said
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
