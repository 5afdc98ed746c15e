"""The cost of several cameras and of lenses: ratios of times, measured in turns in one process.

python benchmarks/cameras.py                 # about a minute
python benchmarks/cameras.py --json          # one line of JSON in place of the table

A step with two cameras is compared with a step of one camera that has as many pixels. The two look at the two halves of
the one camera's view, and fields of view are narrow, so that nearly the same rays are traced: of a wide view the outer
pixels see less each, and turned cameras would trace rays that are farther apart. It exits with 1 where a bar is missed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from ratios import Record, median_ratio, run

from gym_batchnav.geometry import Camera

MAX_RATIO = 1.05  # time of a step with two cameras, relative to one of the same number of pixels


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


def measure(seconds: float, renderer: str) -> list[Record]:
    """Return a record per set of sensors and comparison."""
    wide = Camera(128, 64, hfov_deg=30.0)
    tall = Camera(64, 128, hfov_deg=15.0)
    pairs = {
        "128x64, or an upper and a lower 128x32": (wide, halves(wide, "height")),
        "64x128, or a left and a right 32x128": (tall, halves(tall, "width")),
    }
    records = []
    for sensors in (("depth",), ("rgb", "depth")):
        shared = {"sensors": sensors, "renderer": renderer}
        for what, (one, two) in pairs.items():
            ratio = median_ratio({"camera": one, **shared}, {"camera": two, **shared}, seconds)
            records.append(Record(what, sensors, ratio, MAX_RATIO, met=ratio <= MAX_RATIO))
    return records


if __name__ == "__main__":
    run(__doc__, measure)
