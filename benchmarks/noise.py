"""The cost of noise: frames/s of steps with noise relative to those without, measured in turns in one process.

python benchmarks/noise.py                 # about a minute
python benchmarks/noise.py --json          # one line of JSON in place of the table

All noise of a protocol is switched on together: RGB, depth and motors. It exits with 1 where a bar is missed.
"""

from __future__ import annotations

from typing import Any

from ratios import Record, median_ratio, run

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


def measure(seconds: float, renderer: str) -> list[Record]:
    """Return a record per kind of noise."""
    records = []
    for name, (sensors, noise) in WORKLOADS.items():
        without = {"sensors": sensors, "renderer": renderer}
        ratio = median_ratio({**without, **noise}, without, seconds)
        records.append(Record(name, sensors, ratio, MIN_RATIO, met=ratio >= MIN_RATIO))
    return records


if __name__ == "__main__":
    run(__doc__, measure)
