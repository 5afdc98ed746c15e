"""Run the stages one after another, each with a time limit, and print the table of results.

benchmarks/gpu/run.sh installs the dependencies and calls this program; its --help describes the stages.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import psutil
from figures import OUT, RESULTS, append, row

HERE = Path(__file__).parent
# Time limit of each stage in seconds. They add up to more than the budget, as few stages use all of their time.
LIMITS = {"system": 30, "cpu": 100, "tests": 230, "render": 120, "step": 90, "train": 150, "peers": 60, "profile": 60}
SMALL_FACTOR = 4  # times longer limits with --small, for machines that draw in software
ON_REQUEST = {"learn": 560}  # stages that run only if they are named
MIN_SECONDS = 10.0  # no stage starts with less time than this
READER_SECONDS = 10.0  # wait for the rest of the output of a stage that has ended


def run_stage(stage: str, limit: float, small: bool, log: TextIO) -> dict[str, Any]:
    """Run a stage in its own session, show and log its output, and return its status."""
    command = [sys.executable, str(HERE / f"stage_{stage}.py"), *(["--small"] if small else [])]
    start = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    assert process.stdout is not None
    # A daemon: a process that outlives the stage may hold the pipe open.
    reader = threading.Thread(target=show, args=(process.stdout, log), daemon=True)
    reader.start()
    try:
        status: int | None = process.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        kill_tree(process)
    reader.join(READER_SECONDS)
    ended = "timed out" if status is None else "ok" if status == 0 else f"failed ({status})"
    return {"stage": stage, "status": ended, "seconds": round(time.monotonic() - start, 1), "limit": round(limit, 1)}


def kill_tree(process: subprocess.Popen[str]) -> None:
    """Kill a process that is still running and all its descendants, including those in their own sessions."""
    if process.poll() is not None:
        return
    descendants = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    for descendant in descendants:
        with suppress(psutil.NoSuchProcess):
            descendant.kill()
    process.wait()


def show(stream: TextIO, log: TextIO) -> None:
    """Copy the output of a process to the terminal and to the log until it ends."""
    with suppress(ValueError):  # the log was closed
        for text in stream:
            for out in (sys.stdout, log):
                out.write(text)
                out.flush()


def stage_name(text: str) -> str:
    """Return the name of a stage from the command line, or raise an error that lists all of them."""
    names = [*LIMITS, *ON_REQUEST]
    if text not in names:
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(names)}")
    return text


def table(lines: list[dict[str, Any]]) -> str:
    """Return all figures, the status of every stage, and the bars that were missed."""
    shown = [row(line) for line in lines if "what" in line]
    shown += [
        "",
        *(f"{one['stage']:<8}{one['status']:<12}{one['seconds']:>7.1f} s" for one in lines if "status" in one),
    ]
    judged = [line for line in lines if "met" in line]
    missed = [f"{line['stage']}: {line['what']}" for line in judged if not line["met"]]
    shown += ["", f"{len(judged) - len(missed)} of {len(judged)} bars met", *(f"NOT MET {name}" for name in missed)]
    return "\n".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join([*LIMITS, *ON_REQUEST])
    parser.add_argument("stages", nargs="*", type=stage_name, metavar="stage", help=names)
    parser.add_argument("--small", action="store_true", help="few agents and short times, to test the kit itself")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for all stages and the installation")
    parser.add_argument("--spent", type=float, default=0.0, help="seconds of the budget that are already used")
    options = parser.parse_args()
    deadline = time.monotonic() + options.budget - options.spent
    limits = {
        stage: limit * (SMALL_FACTOR if options.small else 1) for stage, limit in {**LIMITS, **ON_REQUEST}.items()
    }
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / RESULTS).unlink(missing_ok=True)
    append({"stage": "setup", "status": "ok", "seconds": options.spent, "limit": options.budget})
    with (OUT / "log.txt").open("w") as log:
        for stage in options.stages or LIMITS:
            print(f"== {stage}", flush=True)
            limit = min(limits[stage], deadline - time.monotonic())
            if limit < MIN_SECONDS:
                append({"stage": stage, "status": "no time left", "seconds": 0.0, "limit": round(limit, 1)})
                continue
            append(run_stage(stage, limit, options.small, log))
    lines = [json.loads(line) for line in (OUT / RESULTS).read_text().splitlines()]
    text = table(lines)
    (OUT / "table.txt").write_text(text + "\n")
    print(f"== results, also in {OUT}\n{text}")
    if any(line.get("status", "ok") != "ok" for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
