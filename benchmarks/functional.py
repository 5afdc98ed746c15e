"""The cost of a batch as a function: frames/s of ``env.functional()`` relative to ``env.step``, in turns.

python benchmarks/functional.py            # a minute
python benchmarks/functional.py --json     # one line of JSON in place of the table

Each call restores the given state and saves the next one, which costs about as much from an older state as from the
last. Blind agents show that cost; with images it is small beside drawing. "packed" also makes an array of every state
and a checked state of that array, as ``jax.pure_callback`` needs. Figures with images have a bar; it exits with 1 where
one is missed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from itertools import cycle

import numpy as np
from ratios import NUM_ACTIONS, NUM_ENVS, Record, run

from gym_batchnav.bench import interleaved
from gym_batchnav.env.batch_env import BatchNavEnv

BARS = {("depth",): 0.9, (): 0.0}  # frames/s relative to those of ``step``, by sensors; none for blind agents


def measure(seconds: float, renderer: str) -> list[Record]:
    """Return a record per kind of arrays and sensors."""
    kinds = ["numpy", "packed"] + ["torch"] * (find_spec("torch") is not None)
    records = []
    for sensors, bar in BARS.items():
        with closing(BatchNavEnv(NUM_ENVS, sensors=sensors, renderer=renderer)) as env:
            calls = {"step": stepping(env), **{kind: calling(env, kind) for kind in kinds}}
            rates = interleaved(calls, seconds)
        for kind in kinds:
            ratio = statistics.median(a / b for a, b in zip(rates[kind], rates["step"], strict=True))
            records.append(Record(f"functional, {kind}", sensors, ratio, bar, met=ratio >= bar))
    return records


def actions() -> list[np.ndarray]:
    """Return actions [N] for the steps between two resets."""
    rng = np.random.default_rng(0)
    return [rng.choice(4, NUM_ENVS, p=[0.0, 0.6, 0.2, 0.2]) for _ in range(NUM_ACTIONS)]


def stepping(env: BatchNavEnv) -> Callable[[], int]:
    """Return a function that takes a step, the first of each round after a reset, and returns the number of frames."""
    turns = cycle(enumerate(actions()))

    def step() -> int:
        turn, chosen = next(turns)
        if turn == 0:
            env.reset(seed=0)
        env.step(chosen)
        return NUM_ENVS

    return step


def calling(env: BatchNavEnv, kind: str) -> Callable[[], int]:
    """Return a function like that of ``stepping``, which steps the batch as a function."""
    function = env.functional("torch" if kind == "torch" else "numpy")
    turns = cycle(enumerate(actions()))
    state = None
    packed = None

    def step() -> int:
        nonlocal state, packed
        turn, chosen = next(turns)
        if turn == 0:
            state, _, _ = function.reset(seed=0)
        elif kind == "packed":
            state = function.unpack(packed)
        state, *_ = function(state, chosen)
        if kind == "packed":
            packed = function.pack(state)
        return NUM_ENVS

    return step


if __name__ == "__main__":
    run(__doc__ or "", measure)
