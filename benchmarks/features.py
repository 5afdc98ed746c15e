"""The cost of features: frames/s of steps with a feature relative to steps without it, in turns in one process.

python benchmarks/features.py                          # all, in a few minutes
python benchmarks/features.py --only noise functional  # some; --help lists them
python benchmarks/features.py --json                   # one line of JSON in place of the table

noise       all noise of a protocol at once: RGB, depth and motors
cameras     two cameras, relative to one with as many pixels. The two look at the halves of the one camera's view, and
            fields of view are narrow, so that nearly the same rays are traced: of a wide view the outer pixels see less
            each, and turned cameras would trace rays that are farther apart.
colours     depth and RGB, relative to depth alone
map         the sensor MapPath in addition to depth of 32 x 32 pixels
detour      ``geodesic="detour"`` relative to exact distances, for blind agents: to one goal, and to the nearest of the
            many view points of ObjectNav
functional  calls of ``env.functional()`` relative to ``env.step``. Each call restores the given state and saves the
            next one, which costs about as much from an older state as from the last. Blind agents show that cost;
            with images it is small compared with drawing. "packed" also makes an array of every state and a checked
            state of that array, as ``jax.pure_callback`` needs.

It exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from itertools import cycle
from typing import Any

import numpy as np
from bars import Row

from gym_batchnav.bench import interleaved
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.noise.depth import RedwoodNoise
from gym_batchnav.noise.rgb import GaussianNoise, PoissonNoise, SaltAndPepperNoise, SpeckleNoise
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.pointnav import PointNav

NUM_ENVS = 256
NUM_ACTIONS = 64  # steps between two resets
DETOUR_SCENES = "procedural:0-3"
MIN_NOISE = 0.9
MIN_CAMERAS = 0.95
FUNCTIONAL_BARS = {("depth",): 0.9, (): 0.0}  # by sensors; none for blind agents


def row(what: str, sensors: tuple[str, ...], ratio: float, bar: float = 0.0) -> Row:
    """Return a ratio of frames/s, with a feature to without it, of batches with some sensors."""
    return Row(f"{what}, {' and '.join(sensors)}", ratio, bar)


def actions() -> Iterator[tuple[int, np.ndarray]]:
    """Yield numbers of steps, from 0 after each reset, with actions [N], again and again."""
    rng = np.random.default_rng(0)
    return cycle(enumerate([rng.choice(4, NUM_ENVS, p=[0.0, 0.6, 0.2, 0.2]) for _ in range(NUM_ACTIONS)]))


def stepping(env: BatchNavEnv) -> Callable[[], int]:
    """Return a function that takes a step, the first of each round after a reset, and returns the number of frames."""
    turns = actions()

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
    turns = actions()
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


def median_ratio(rates: dict[str, list[float]], first: str, second: str) -> float:
    """Return the median ratio of two workloads that took turns."""
    return statistics.median(a / b for a, b in zip(rates[first], rates[second], strict=True))


def compared(with_it: dict[str, Any], without: dict[str, Any], seconds: float) -> float:
    """Return the median ratio of the frames/s of batches with two sets of keywords."""
    with closing(BatchNavEnv(NUM_ENVS, **with_it)) as one, closing(BatchNavEnv(NUM_ENVS, **without)) as two:
        return median_ratio(interleaved({"with": stepping(one), "without": stepping(two)}, seconds), "with", "without")


def noise(seconds: float, renderer: str) -> Iterator[Row]:
    """Compare each kind of noise with none."""
    depth = {"depth": RedwoodNoise()}
    kinds: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "Gaussian, Redwood, LoCoBot": (
            ("rgb", "depth"),
            {"sensor_noise": {"rgb": GaussianNoise(0.1), **depth}, "actuation_noise": "locobot"},
        ),
        "Redwood, LoCoBot": (("depth",), {"sensor_noise": depth, "actuation_noise": "locobot"}),
        "speckle": (("rgb",), {"sensor_noise": {"rgb": SpeckleNoise()}}),
        "salt and pepper": (("rgb",), {"sensor_noise": {"rgb": SaltAndPepperNoise()}}),
        "Poisson": (("rgb",), {"sensor_noise": {"rgb": PoissonNoise()}}),
    }
    for name, (sensors, keywords) in kinds.items():
        without = {"sensors": sensors, "renderer": renderer}
        yield row(name, sensors, compared({**without, **keywords}, without, seconds), MIN_NOISE)


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


def cameras(seconds: float, renderer: str) -> Iterator[Row]:
    """Compare two cameras with one of as many pixels."""
    wide = Camera(128, 64, hfov_deg=30.0)
    tall = Camera(64, 128, hfov_deg=15.0)
    pairs = {
        "an upper and a lower 128x32, or 128x64": (wide, halves(wide, "height")),
        "a left and a right 32x128, or 64x128": (tall, halves(tall, "width")),
    }
    for sensors in (("depth",), ("rgb", "depth")):
        shared = {"sensors": sensors, "renderer": renderer}
        for what, (one, two) in pairs.items():
            ratio = compared({"camera": two, **shared}, {"camera": one, **shared}, seconds)
            yield row(what, sensors, ratio, MIN_CAMERAS)


def colours(seconds: float, renderer: str) -> Iterator[Row]:
    """Compare depth and RGB with depth alone."""
    both = ("depth", "rgb")
    ratio = compared({"sensors": both, "renderer": renderer}, {"sensors": ("depth",), "renderer": renderer}, seconds)
    yield row("colours", both, ratio)


def mapped(seconds: float, renderer: str) -> Iterator[Row]:
    """Compare steps with a map with steps without one."""
    shared = {"camera": Camera(32, 32), "renderer": renderer, "buffers": 2}
    ratio = compared({"sensors": ("depth", MapPath()), **shared}, {"sensors": ("depth",), **shared}, seconds)
    yield row("a map", ("depth",), ratio)


def detour(seconds: float, renderer: str) -> Iterator[Row]:
    """Compare steps that measure distances by Detour's paths with steps that measure exact ones."""
    for task in (PointNav(), ObjectNav()):
        without = {"task": task, "scenes": DETOUR_SCENES, "sensors": (), "renderer": renderer}
        ratio = compared({**without, "geodesic": "detour"}, without, seconds)
        yield row(f"Detour's distances, {type(task).__name__}", (), ratio)


def functional(seconds: float, renderer: str) -> Iterator[Row]:
    """Compare calls of the batch as a function with its steps, by kind of arrays."""
    kinds = ["numpy", "packed"] + ["torch"] * (find_spec("torch") is not None)
    for sensors, bar in FUNCTIONAL_BARS.items():
        with closing(BatchNavEnv(NUM_ENVS, sensors=sensors, renderer=renderer)) as env:
            rates = interleaved({"step": stepping(env), **{kind: calling(env, kind) for kind in kinds}}, seconds)
        for kind in kinds:
            yield row(f"functional, {kind}", sensors, median_ratio(rates, kind, "step"), bar)


PARTS = {
    "noise": noise,
    "cameras": cameras,
    "colours": colours,
    "map": mapped,
    "detour": detour,
    "functional": functional,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--renderer", default="embree", choices=("embree", "opengl", "auto"))
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    rows = []
    for part in options.only:
        for one in PARTS[part](options.seconds, options.renderer):
            rows.append(one)
            if not options.json:
                print(one, flush=True)
    if options.json:
        print(json.dumps({"rows": [{"what": one.what, "ratio": one.figure, "bar": one.bar} for one in rows]}))
    sys.exit(not all(one.met for one in rows))


if __name__ == "__main__":
    main()
