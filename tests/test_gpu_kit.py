"""The kit for GPU machines: results of stages that time out or fail, and the table."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

KIT = Path(__file__).parents[1] / "benchmarks" / "gpu" / "kit.py"
pytestmark = pytest.mark.slow


def run_stage(folder, program, limit, small=True):
    """Run a program as the stage ``speed`` of a copy of the kit; return its end, its results and the table."""
    copy = folder / "kit.py"
    copy.write_text(KIT.read_text().replace('"out/gpu"', repr(str(folder))))
    spec = importlib.util.spec_from_file_location("kit_copy", copy)
    kit = importlib.util.module_from_spec(spec)
    sys.modules["kit_copy"] = kit
    spec.loader.exec_module(kit)
    (folder / "speed.py").write_text(f"import time, kit\nreport = kit.Report('speed')\n{program}\nreport.end()")
    ended = kit.run_stage("speed", limit, small)
    lines = [json.loads(line) for line in (folder / kit.RESULTS).read_text().splitlines()]
    return ended, lines, kit.table([*lines, ended])


def test_a_stage_that_is_cut_off_leaves_what_it_had_found(tmp_path, monkeypatch):
    monkeypatch.delenv("OUT", raising=False)
    program = "report.figure('speed', 7.0, 'frames/s', bar=5)\ntime.sleep(3600)"
    ended, (line,), table = run_stage(tmp_path, program, 4.0)
    assert ended["status"] == "timed out" and ended["seconds"] >= 4
    assert line["value"] == 7.0 and line["met"]
    assert "timed out" in table and "1 of 1 bars met" in table


def test_a_part_that_fails_is_named_and_the_next_one_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("OUT", raising=False)
    program = (
        "with report.part('first'):\n    raise ValueError('no such house')\n"
        "with report.part('second'):\n    report.figure('size', 612345.6, bar=8, at_most=True)"
    )
    ended, (first, second), table = run_stage(tmp_path, program, 60.0, small=False)
    assert ended["status"] == "failed (1)"
    assert first["value"] is None and "no such house" in first["note"]
    assert not second["met"] and "612,346" in table and "NOT MET speed: size" in table
