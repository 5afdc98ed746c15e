"""Frames per second of a renderer alone: one row for every choice of sensors, resolution and number of views.

python benchmarks/render.py SCENE [--renderer embree] [--size 64 128] [--num-views 64 256] [--seconds 3]
"""

from __future__ import annotations

import argparse
import itertools

from gym_batchnav.bench import bench_render
from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import RENDERERS

SENSORS = (("depth",), ("depth", "rgb"), ("depth", "rgb", "semantic"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", help="a scene's file or the name of a shipped or procedural one")
    parser.add_argument("--renderer", choices=RENDERERS, default="auto")
    parser.add_argument("--size", type=int, nargs="+", default=[64, 128], help="pixels along a side")
    parser.add_argument("--num-views", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure each row")
    options = parser.parse_args()
    print(f"{'sensors':<20}{'pixels':>8}{'views':>7}{'frames/s':>11}{'spread':>8}  renderer")
    for sensors, size, count in itertools.product(SENSORS, options.size, options.num_views):
        figures = bench_render(
            options.scene,
            count,
            options.seconds,
            sensors=sensors,
            camera=Camera(size, size),
            renderer=options.renderer,
        )
        print(
            f"{'+'.join(sensors):<20}{size:>8}{count:>7}{figures['fps']:>11,.0f}{figures['spread']:>8.0%}"
            f"  {figures['renderer']}, {figures['device']}"
        )


if __name__ == "__main__":
    main()
