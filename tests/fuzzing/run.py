"""Many inputs: made from a seed, tried in limited processes, counted, and kept where they fail."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fuzzing.samples import KINDS, mutated, write_samples

TESTS = Path(__file__).parents[1]
INPUTS_PER_PROCESS = 400  # then it is replaced, so that what one leaves behind counts no more
WALL_SECONDS = 600.0  # for an input that waits without using the processor
FAILED = "failed"


class Failure(NamedTuple):
    """An input that failed."""

    kind: str
    number: int
    reason: str


class Process:
    """One process that tries inputs."""

    def __init__(self, samples: Path, kinds: Sequence[str]) -> None:
        path = [TESTS, TESTS.parent, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "NUMBA_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "GYM_BATCHNAV_CACHE": str(samples / "no_cache"),
        }
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzzing.tries", samples, ",".join(kinds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment, cwd=samples, text=True,
        )  # fmt: skip
        self.num_tried = 0
        if self._answer(600) != "ready":
            self.close()
            self._errors.seek(0)
            raise RuntimeError(f"the process that tries inputs did not start: {self._errors.read()[-2000:].decode()}")

    def attempt(self, kind: str, folder: Path, file: str) -> tuple[str, str]:
        """Try an input; returns the outcome and its reason. After a failure that ended it, the process is gone."""
        assert self._process.stdin is not None
        self.num_tried += 1
        self._process.stdin.write(f"{kind}\t{folder}\t{file}\n")
        self._process.stdin.flush()
        answer = self._answer(WALL_SECONDS)
        if answer is None:
            alive = self._process.poll() is None
            self.close()
            code = self._process.returncode
            if alive and code == -signal.SIGKILL:
                return FAILED, f"it hung for {WALL_SECONDS:g} s"
            if code == -signal.SIGPROF:
                return FAILED, "it took more than 10 s of processor time, or as much on a slower processor"
            return FAILED, f"the process ended with {signal.Signals(-code).name if code < 0 else code}"
        outcome, _, reason = answer.partition("\t")
        return outcome, reason

    def _answer(self, seconds: float) -> str | None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else ""
        return line.rstrip("\n") if line else None

    def close(self) -> None:
        """End the process."""
        try:
            self._process.wait(0.5 if self._process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def fuzz(
    count: int,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    keep: Path | None = None,
    report: Callable[[int, list[Failure]], None] = lambda *_: None,
) -> tuple[Counter[tuple[str, str]], list[Failure]]:
    """Try ``count`` inputs, kind after kind in turn.

    Args:
        count: How many.
        seed: Input k of a seed is the same whatever the count.
        kinds: Some of ``KINDS``.
        keep: A folder for inputs that failed, each in a folder of its own with the reason.
        report: Called after each input with the number of those tried and the failures so far.

    Returns:
        How often each kind had each outcome, and the failures.
    """
    outcomes: Counter[tuple[str, str]] = Counter()
    failures: list[Failure] = []
    process: Process | None = None
    with tempfile.TemporaryDirectory(prefix="fuzzing") as made:
        samples = Path(made, "samples")
        folder = Path(made, "input")
        write_samples(samples)
        kinds = [kind for kind in kinds if any((samples / kind).iterdir())]
        try:
            for number in range(count):
                kind = kinds[number % len(kinds)]
                files, file = mutated(np.random.default_rng([seed, number]), kind, samples)
                _write(folder, files)
                if process is None or process.num_tried >= INPUTS_PER_PROCESS:
                    if process is not None:
                        process.close()
                    process = Process(samples, kinds)
                first = process.num_tried == 0
                outcome, reason = process.attempt(kind, folder, file)
                if outcome == FAILED and not first:  # once more alone: memory may be gone to those before it
                    process.close()
                    process = Process(samples, kinds)
                    _write(folder, files)
                    outcome, reason = process.attempt(kind, folder, file)
                if outcome == FAILED:
                    process.close()
                    process = None
                    failures.append(Failure(kind, number, f"{file}: {reason}"))
                    if keep is not None:
                        _write(keep / f"{kind}-{seed}-{number}", {**files, "reason.txt": f"{file}: {reason}".encode()})
                outcomes[kind, _named(outcome, reason)] += 1
                report(number + 1, failures)
        finally:
            if process is not None:
                process.close()
    return outcomes, failures


def _named(outcome: str, reason: str) -> str:
    """The outcome in the table; failures are divided into other exceptions, ended processes and time-outs."""
    if outcome != FAILED:
        return outcome
    if reason.startswith(("it hung", "it took more")):
        return "slow"
    return "signal" if reason.startswith("the process ended") else "raised"


def _write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
