"""The cost of noise: frames/s of steps with noise relative to those without, measured in turns in one process.

python benchmarks/noise.py                 # about a minute
python benchmarks/noise.py --json          # one line of JSON in place of the table

All noise of a protocol is switched on together: RGB, depth and motors. It exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from contextlib import ExitStack
from typing import Any

from cameras import stepping

from gym_batchnav.bench import interleaved
from gym_batchnav.geometry import Camera
from gym_batchnav.noise.depth import RedwoodNoise
from gym_batchnav.noise.rgb import GaussianNoise, PoissonNoise, SaltAndPepperNoise, SpeckleNoise

MIN_RATIO = 0.9  # frames/s with noise relative to those without
DEPTH = {"depth": RedwoodNoise()}
WORKLOADS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "Gaussian, Redwood, LoCoBot": (
        ("rgb", "depth"),
        {"sensor_noise": {"rgb": GaussianNoise(0.1), **DEPTH}, "actuation_noise": "locobot"},
    ),
    "Redwood, LoCoBot": (("depth",), {"sensor_noise": DEPTH, "actuation_noise": "locobot"}),
    "speckle": (("rgb",), {"sensor_noise": {"rgb": SpeckleNoise()}}),
    "salt and pepper": (("rgb",), {"sensor_noise": {"rgb": SaltAndPepperNoise()}}),
    "Poisson": (("rgb",), {"sensor_noise": {"rgb": PoissonNoise()}}),
}


def measure(seconds: float, renderer: str) -> list[dict[str, Any]]:
    """Return a record per kind of noise."""
    records = []
    for name, (sensors, noise) in WORKLOADS.items():
        with ExitStack() as stack:
            workloads = {
                "without": stepping(stack, Camera(), sensors, renderer),
                "with": stepping(stack, Camera(), sensors, renderer, **noise),
            }
            rates = interleaved(workloads, seconds)
        ratio = statistics.median(a / b for a, b in zip(rates["with"], rates["without"], strict=True))
        records.append({"noise": name, "sensors": sensors, "ratio": ratio, "bar": MIN_RATIO, "met": ratio >= MIN_RATIO})
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
            print(f"{record['noise']:<30}{' + '.join(record['sensors']):<14}{record['ratio']:>7.3f}  {verdict}")
    sys.exit(not all(record["met"] for record in records))


if __name__ == "__main__":
    main()
