"""The cost of several cameras and of lenses: ratios of times, measured in turns in one process.

python benchmarks/cameras.py                 # about a minute
python benchmarks/cameras.py --json          # one line of JSON in place of the table

A step with two cameras is compared with a step of one camera that has as many pixels. The two look at the two halves of
the one camera's view, and fields of view are narrow, so that nearly the same rays are traced: of a wide view the outer
pixels see less each, and turned cameras would trace rays that are farther apart. It exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy as np

from gym_batchnav.bench import interleaved
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.geometry import Camera

MAX_RATIO = 1.05  # time of a step with two cameras, relative to one of the same number of pixels
NUM_ENVS = 256
ACTIONS = 64  # steps between two resets


def stepping(
    stack: ExitStack, camera: Any, sensors: tuple[str, ...], renderer: str, **keywords: Any
) -> Callable[[], int]:
    """Return a function that takes a step of a new batch and returns the number of environments."""
    env = BatchNavEnv(NUM_ENVS, camera=camera, sensors=sensors, renderer=renderer, **keywords)
    stack.enter_context(closing(env))
    rng = np.random.default_rng(0)
    actions = [rng.choice(4, NUM_ENVS, p=[0.0, 0.6, 0.2, 0.2]) for _ in range(ACTIONS)]
    taken = 0

    def step() -> int:
        nonlocal taken
        if taken % ACTIONS == 0:
            env.reset(seed=0)
        env.step(actions[taken % ACTIONS])
        taken += 1
        return NUM_ENVS

    return step


def halves(camera: Camera, axis: str) -> dict[str, Camera]:
    """Return two cameras that each see half of a camera's view, with pixels of the same size.

    Args:
        camera: A camera whose view is not too wide along the axis, so that turning hardly changes the rays.
        axis: ``"width"`` for a left and a right half, ``"height"`` for an upper and a lower one.
    """
    tangent = camera.tan_half_width if axis == "width" else camera.tan_half_height
    turn = float(np.degrees(np.arctan(tangent)) / 2)
    hfov = camera.hfov_deg if axis == "height" else float(np.degrees(2 * np.arctan(tangent / 2)))
    half = replace(camera, hfov_deg=hfov, **{axis: getattr(camera, axis) // 2})
    angle = "yaw_deg" if axis == "width" else "pitch_deg"
    return {"first": replace(half, **{angle: turn}), "second": replace(half, **{angle: -turn})}


def measure(seconds: float, renderer: str) -> list[dict[str, Any]]:
    """Return a record per set of sensors and comparison."""
    wide = Camera(128, 64, hfov_deg=30.0)
    tall = Camera(64, 128, hfov_deg=15.0)
    pairs = {
        "128x64, or an upper and a lower 128x32": (wide, halves(wide, "height")),
        "64x128, or a left and a right 32x128": (tall, halves(tall, "width")),
    }
    records = []
    for sensors in (("depth",), ("rgb", "depth")):
        for what, (one, two) in pairs.items():
            with ExitStack() as stack:
                workloads = {
                    "one": stepping(stack, one, sensors, renderer),
                    "two": stepping(stack, two, sensors, renderer),
                }
                rates = interleaved(workloads, seconds)
            ratio = statistics.median(a / b for a, b in zip(rates["one"], rates["two"], strict=True))
            records.append(
                {"what": what, "sensors": sensors, "ratio": ratio, "bar": MAX_RATIO, "met": ratio <= MAX_RATIO}
            )
    return records


def main() -> None:
    """Print the records; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--renderer", default="embree", choices=("embree", "opengl", "auto"))
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    records = measure(options.seconds, options.renderer)
    if options.json:
        print(json.dumps(records))
    else:
        for record in records:
            verdict = "met" if record["met"] else "NOT MET"
            print(f"{record['what']:<44}{' + '.join(record['sensors']):<14}{record['ratio']:>7.3f}  {verdict}")
    sys.exit(not all(record["met"] for record in records))


if __name__ == "__main__":
    main()
