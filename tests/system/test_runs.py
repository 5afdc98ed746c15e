"""The log of runs: appended lines, damaged ones, and logs that cannot be written."""

import json

import pytest

from gym_batchnav.system import runs as module
from gym_batchnav.system.runs import read_runs, record_run, runs_file


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "a folder" / "runs.jsonl"
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(path))
    return path


def test_runs_come_back_in_their_order(file):
    for fps in (1.5, 2.5):
        assert record_run({"fps": fps})
    assert read_runs(file) == [{"fps": 1.5}, {"fps": 2.5}]


def test_lines_that_are_no_runs_are_skipped(file):
    record_run({"fps": 1})
    with file.open("ab") as log:
        log.write(b'[1, 2]\n\xff\xfe\n{"fps": NaN\n' + b"[" * 10_000 + b"\n")
    record_run({"fps": 2})
    with file.open("ab") as log:
        log.write(b'{"fps": 3')  # a process that was killed
    assert read_runs(file) == [{"fps": 1}, {"fps": 2}]
    record_run({"fps": 4})
    assert read_runs(file) == [{"fps": 1}, {"fps": 2}, {"fps": 4}]


def test_a_log_that_cannot_be_written_fails_no_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(tmp_path / "file" / "runs.jsonl"))
    assert not record_run({"fps": 1})


def test_the_log_may_be_off_and_lies_beside_the_cache(tmp_path, monkeypatch):
    assert runs_file() is None and not record_run({"fps": 1})  # as in all tests
    monkeypatch.delenv("GYM_BATCHNAV_RUNS")
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path))
    assert runs_file() == tmp_path / "runs.jsonl"


def test_sizes_are_bounded(file, monkeypatch):
    with pytest.raises(ValueError, match="the log takes at most"):
        record_run({"scene": "x" * 20_000})
    with pytest.raises(FileNotFoundError, match="there is no log of runs"):
        read_runs(file)
    record_run({"fps": 1})
    monkeypatch.setattr(module, "MAX_BYTES", len(json.dumps({"fps": 1})))
    with pytest.raises(ValueError, match="keep its newest lines only"):
        read_runs(file)
