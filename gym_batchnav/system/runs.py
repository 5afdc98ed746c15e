"""The log of runs: settings and figures of the benchmarks and trainings of a user, one line of JSON each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

VARIABLE = "GYM_BATCHNAV_RUNS"
OFF = "off"
MAX_BYTES = 2**26  # of a log that is read
MAX_LINE_BYTES = 2**14


def runs_file() -> Path | None:
    """Return the file of the log, or None if there is none.

    It is named by the environment variable ``GYM_BATCHNAV_RUNS``, where ``off`` means none. By default it lies in the
    folder of ``GYM_BATCHNAV_CACHE``, or in the user's folder for data.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return None if chosen == OFF else Path(chosen)
    folder = os.environ.get("GYM_BATCHNAV_CACHE") or platformdirs.user_data_dir("gym_batchnav")
    return Path(folder) / "runs.jsonl"


def record_run(run: Mapping[str, Any]) -> bool:
    """Append a run to the log; return whether it was written.

    A log that cannot be written never fails the run whose figures it would hold.

    Args:
        run: JSON values.

    Raises:
        ValueError: A run needs more than 16 KiB.
    """
    file = runs_file()
    if file is None:
        return False
    line = (json.dumps(dict(run)) + "\n").encode()
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a run of {len(line):,} bytes: the log takes at most {MAX_LINE_BYTES:,}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a+b", buffering=0) as log:
            if log.seek(0, os.SEEK_END):
                log.seek(-1, os.SEEK_END)
                if log.read(1) != b"\n":  # a process was killed, or the disk was full
                    line = b"\n" + line
            # One write to a file opened for appending is never torn apart by another process.
            return log.write(line) == len(line)
    except OSError:
        return False


def read_runs(file: Path) -> list[dict[str, Any]]:
    """Return the runs in a log, oldest first; lines that are no JSON objects are skipped, such as a last one cut short.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is larger than 64 MiB.
    """
    if not file.is_file():
        raise FileNotFoundError(f"there is no log of runs '{file}': run gym-batchnav bench step, or check the path")
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"'{file}' has {size:,} bytes, more than {MAX_BYTES:,}: keep its newest lines only")
    runs = []
    for line in file.read_bytes().splitlines():
        try:
            run = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(run, dict):
            runs.append(run)
    return runs
