"""Run the stages one after another, each with a time limit, and print the table of results.

benchmarks/gpu/run.sh installs the dependencies and calls this program; its --help describes the stages. A stage calls
``Report`` for each figure, so that what it has found is kept even if it is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

OUT = Path(os.environ.get("OUT", "out/gpu"))
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared"))
RESULTS = "results.jsonl"
LIMITS = {"correct": 270, "speed": 270, "peer": 60}  # seconds of each stage
SMALL_FACTOR = 4  # times longer limits with --small, for machines that draw in software
MIN_SECONDS = 10.0  # no stage starts with less time than this


class Report:
    """The figures of one stage, which takes the option ``--small``.

    Args:
        stage: Name of the stage.

    Attributes:
        small: Whether to use few agents and short times.
    """

    def __init__(self, stage: str) -> None:
        parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
        parser.add_argument("--small", action="store_true", help="few agents and short times")
        self.small: bool = parser.parse_args().small
        self._stage = stage
        self._failed = False

    def figure(
        self, what: str, value: Any, unit: str = "", bar: float | None = None, at_most: bool = False, note: str = ""
    ) -> None:
        """Write a figure; ``bar`` is the lowest acceptable value, or the highest one with ``at_most``."""
        line = {"stage": self._stage, "what": what, "value": value, "unit": unit, "note": note}
        if bar is not None:
            line |= {"bar": bar, "at_most": at_most, "met": bool(value <= bar if at_most else value >= bar)}
        append(line)
        print(row(line), flush=True)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Run a block and write its error, if any, as a figure, so that the next part runs."""
        try:
            yield
        except Exception as error:
            self._failed = True
            traceback.print_exc()
            self.figure(what, None, note=f"failed: {type(error).__name__}: {str(error)[:300]}")

    def end(self) -> None:
        """Exit with 1 if a part failed."""
        sys.exit(1 if self._failed else 0)


def append(line: dict[str, Any]) -> None:
    """Append a line to the results file."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, default=str) + "\n")


def row(line: dict[str, Any]) -> str:
    """Return a figure as a line of the table."""
    value = line["value"]
    note = line["note"]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    shown = f"{value:,.0f}" if number and abs(value) >= 100 else f"{value:.4g}" if number else str(value)
    if len(shown) > 14:  # a name, not a number
        note = "; ".join(filter(None, (shown, note)))
        shown = ""
    bar = f"{'<=' if line['at_most'] else '>='} {line['bar']:,g}" if "bar" in line else ""
    verdict = ("met" if line["met"] else "NOT MET") if "met" in line else ""
    text = f"{line['stage']:<8}{line['what']:<58}{shown:>14} {line['unit']:<9}{bar:<12}{verdict:<8}{note}"
    return text.rstrip()


def run_stage(stage: str, limit: float, small: bool) -> dict[str, Any]:
    """Run a stage in its own session, show its output, and return its status."""
    command = [sys.executable, str(Path(__file__).with_name(f"{stage}.py")), *(["--small"] if small else [])]
    start = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait(limit)
        ended = "ok" if status == 0 else f"failed ({status})"
    except subprocess.TimeoutExpired:
        ended = "timed out"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what the stage has left running
        process.wait()
    return {"stage": stage, "status": ended, "seconds": round(time.monotonic() - start, 1), "limit": round(limit, 1)}


def table(lines: list[dict[str, Any]]) -> str:
    """Return all figures, the status of every stage, and the bars that were missed."""
    judged = [line for line in lines if "met" in line]
    missed = [f"NOT MET {line['stage']}: {line['what']}" for line in judged if not line["met"]]
    return "\n".join(
        [
            *(row(line) for line in lines if "what" in line),
            "",
            *(f"{one['stage']:<8}{one['status']:<12}{one['seconds']:>7.1f} s" for one in lines if "status" in one),
            "",
            f"{len(judged) - len(missed)} of {len(judged)} bars met",
            *missed,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="stage", help=", ".join(LIMITS))
    parser.add_argument("--small", action="store_true", help="few agents and short times, to test the kit itself")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for all stages and the installation")
    parser.add_argument("--spent", type=float, default=0.0, help="seconds of the budget that are already used")
    options = parser.parse_args()
    for stage in options.stages:
        if stage not in LIMITS:
            parser.error(f"{stage!r}: choose from {', '.join(LIMITS)}")
    deadline = time.monotonic() + options.budget - options.spent
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / RESULTS).unlink(missing_ok=True)
    append({"stage": "setup", "status": "ok", "seconds": options.spent, "limit": options.budget})
    for stage in options.stages or LIMITS:
        print(f"== {stage}", flush=True)
        limit = min(LIMITS[stage] * (SMALL_FACTOR if options.small else 1), deadline - time.monotonic())
        if limit < MIN_SECONDS:
            append({"stage": stage, "status": "no time left", "seconds": 0.0, "limit": round(limit, 1)})
        else:
            append(run_stage(stage, limit, options.small))
    lines = [json.loads(line) for line in (OUT / RESULTS).read_text().splitlines()]
    text = table(lines)
    (OUT / "table.txt").write_text(text + "\n")
    print(f"== results, also in {OUT}\n{text}")
    if any(line.get("status", "ok") != "ok" for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
