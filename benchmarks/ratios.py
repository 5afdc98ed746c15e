"""Ratios of two batches' frames/s, measured in turns in one process, with a command line of their own."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gym_batchnav.bench import interleaved
from gym_batchnav.env.batch_env import BatchNavEnv

NUM_ENVS = 256
NUM_ACTIONS = 64  # steps between two resets


@dataclass(frozen=True)
class Record:
    """One measured ratio.

    Attributes:
        what: What was compared.
        sensors: The sensors of both batches.
        ratio: The measured ratio.
        bar: What it should be, at least or at most.
        met: Whether it is.
    """

    what: str
    sensors: tuple[str, ...]
    ratio: float
    bar: float
    met: bool


def median_ratio(first: dict[str, Any], second: dict[str, Any], seconds: float) -> float:
    """Return the median ratio of the frames/s of two batches.

    Args:
        first: Keyword arguments of the first batch.
        second: Keyword arguments of the second.
        seconds: Length of each measurement.
    """
    with closing(BatchNavEnv(NUM_ENVS, **first)) as one, closing(BatchNavEnv(NUM_ENVS, **second)) as two:
        rates = interleaved({"first": _stepping(one), "second": _stepping(two)}, seconds)
    return statistics.median(a / b for a, b in zip(rates["first"], rates["second"], strict=True))


def _stepping(env: BatchNavEnv) -> Callable[[], int]:
    """Return a function that takes a step of a batch and returns the number of environments."""
    rng = np.random.default_rng(0)
    actions = [rng.choice(4, NUM_ENVS, p=[0.0, 0.6, 0.2, 0.2]) for _ in range(NUM_ACTIONS)]
    taken = 0

    def step() -> int:
        nonlocal taken
        if taken % NUM_ACTIONS == 0:
            env.reset(seed=0)
        env.step(actions[taken % NUM_ACTIONS])
        taken += 1
        return NUM_ENVS

    return step


def run(description: str, measure: Callable[[float, str], list[Record]]) -> None:
    """Measure and print as the command line says; exit with 1 where a bar is missed.

    Args:
        description: Text of ``--help``.
        measure: Takes the length of each measurement in seconds and the name of a renderer.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--renderer", default="embree", choices=("embree", "opengl", "auto"))
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    records = measure(options.seconds, options.renderer)
    if options.json:
        print(json.dumps([asdict(record) for record in records]))
    else:
        for record in records:
            verdict = "met" if record.met else "NOT MET"
            print(f"{record.what:<44}{' + '.join(record.sensors):<14}{record.ratio:>7.3f}  {verdict}")
    sys.exit(not all(record.met for record in records))
