"""The cost of colours: frames/s of steps with depth and RGB relative to steps with depth alone.

Two batches of the same scenes, seeds and actions step in turns, so that a busy machine slows both.

Usage: python benchmarks/shading.py [--scenes NAME_OR_PATH ...]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from statistics import median

import numpy as np

from gym_batchnav.env.batch_env import BatchNavEnv

DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared"))
HOUSE = DATA / "scenes" / "aws_small_house" / "aws_small_house.glb"
SENSORS = (("depth",), ("depth", "rgb"))


def measure(scenes: str, num_envs: int, steps: int, rounds: int) -> list[float]:
    """Return the frames/s of each entry of SENSORS in one kind of scene, medians over rounds."""
    batches = [BatchNavEnv(num_envs, scenes=scenes, sensors=sensors, renderer="embree") for sensors in SENSORS]
    rng = np.random.default_rng(0)
    for batch in batches:
        batch.reset(seed=0)
    rates: list[list[float]] = [[] for _ in batches]
    for _ in range(rounds + 1):
        actions = rng.integers(1, 4, (steps, num_envs))  # no STOP: no episode ends early
        for batch, found in zip(batches, rates, strict=True):
            start = time.perf_counter()
            for row in actions:
                batch.step(row)
            found.append(steps * num_envs / (time.perf_counter() - start))
    for batch in batches:
        batch.close()
    return [median(found[1:]) for found in rates]  # the first round warms up


def main() -> None:
    """Print a table with one row per kind of scene."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", nargs="+", default=["apartments", *([str(HOUSE)] if HOUSE.is_file() else [])])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8, help="steps of each batch in a round")
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    print("| scenes | depth, frames/s | depth and RGB | ratio |\n|---|---|---|---|")
    for scenes in arguments.scenes:
        depth, both = measure(scenes, arguments.num_envs, arguments.steps, arguments.rounds)
        print(f"| {Path(scenes).stem} | {depth:,.0f} | {both:,.0f} | {both / depth:.2f} |", flush=True)


if __name__ == "__main__":
    main()
