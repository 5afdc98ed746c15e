"""Runs the stages of the kit one after the other, each with its own time limit, and prints the table of results.

benchmarks/gpu/run.sh installs what they need and calls this; --help there tells what each stage does.
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
from pathlib import Path
from typing import Any, TextIO

from figures import OUT, RESULTS, append, row

HERE = Path(__file__).parent
# Seconds that each stage may take. All together are more than the budget: what a stage does not use is the others'.
LIMITS = {"system": 30, "cpu": 100, "tests": 230, "render": 120, "step": 90, "train": 150, "peers": 60, "profile": 60}
SLOWER = 4  # times as long with --small, for machines that draw in software
ASKED_FOR = {"learn": 560}  # not among those that run unasked
LEAST = 10.0  # seconds below which a stage is not begun


def run_stage(stage: str, limit: float, small: bool, log: TextIO) -> dict[str, Any]:
    """Run a stage in a process group of its own, its output shown and logged; returns how it ended."""
    command = [sys.executable, str(HERE / f"stage_{stage}.py"), *(["--small"] if small else [])]
    start = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    assert process.stdout is not None
    teller = threading.Thread(target=show, args=(process.stdout, log))
    teller.start()
    try:
        status: int | None = process.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
        os.killpg(process.pid, signal.SIGKILL)  # its children with it
        process.wait()
    teller.join()
    ended = "timed out" if status is None else "ok" if status == 0 else f"failed ({status})"
    return {"stage": stage, "status": ended, "seconds": round(time.monotonic() - start, 1), "limit": round(limit, 1)}


def show(stream: TextIO, log: TextIO) -> None:
    """Pass on what a process says until it ends."""
    for text in stream:
        for out in (sys.stdout, log):
            out.write(text)
            out.flush()


def table(lines: list[dict[str, Any]]) -> str:
    """All figures, and how the stages ended."""
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
    parser.add_argument(
        "stages", nargs="*", choices=[*LIMITS, *ASKED_FOR, []], metavar="stage", help=", ".join([*LIMITS, *ASKED_FOR])
    )
    parser.add_argument("--small", action="store_true", help="few agents and short times, to try the kit itself")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for everything")
    parser.add_argument("--spent", type=float, default=0.0, help="seconds of it that are spent already")
    options = parser.parse_args()
    deadline = time.monotonic() + options.budget - options.spent
    limits = {stage: limit * (SLOWER if options.small else 1) for stage, limit in {**LIMITS, **ASKED_FOR}.items()}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / RESULTS).unlink(missing_ok=True)
    append({"stage": "setup", "status": "ok", "seconds": options.spent, "limit": options.budget})
    with (OUT / "log.txt").open("w") as log:
        for stage in options.stages or LIMITS:
            print(f"== {stage}", flush=True)
            limit = min(limits[stage], deadline - time.monotonic())
            if limit < LEAST:
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
