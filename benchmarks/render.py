"""The speed of the renderers against targets: name, figure, target, met or not.

python benchmarks/render.py                     # everything, about two minutes
python benchmarks/render.py --only threads      # one part; see --help for their names
python benchmarks/render.py --json              # one line of JSON in place of the table

It exits with 1 where a bar is missed. Every part ends with the figure of a fixed calibration loop in the same run, in
million operations/s: where that is low, so are the others. Figures that are compared are measured in turns, and are the
median of the ratios of the turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import psutil
from bars import Row
from scenes import make_scan

from gym_batchnav.bench import bench_render, drawing, interleaved, machine
from gym_batchnav.geometry import Camera
from gym_batchnav.homes import generate_apartment
from gym_batchnav.navmesh import NavMesh, NavMeshSettings
from gym_batchnav.scene.load import load_scene

APARTMENTS = "apartments"
HOUSE = "aws_small_house/aws_small_house.glb"
SHOP = "aws_bookstore/aws_bookstore.glb"
NUM_VIEWS = 256


def absolute(data: Path, seconds: float, renderer: str, sensors: tuple[str, ...], bars: dict[str, float]) -> list[Row]:
    """Measure the frames/s in each scene."""
    rows = []
    for scene, bar in bars.items():
        source = scene if scene == APARTMENTS else data / "scenes" / scene
        what = f"{renderer}, {' + '.join(sensors)}, {Path(scene).stem}, frames/s"
        if scene != APARTMENTS and not Path(source).is_file():
            rows.append(Row(what, None, bar, 0, note=f"no {source}: name the folder of scenes with --data"))
            continue
        num_views = 64 if renderer == "opengl" else NUM_VIEWS
        figures = bench_render(source, num_views, seconds, sensors=sensors, renderer=renderer)
        rows.append(Row(what, figures["fps"], bar, figures["calibration_mops"], note=figures["device"]))
    return rows


def triangles(_: Path, seconds: float) -> list[Row]:
    """Compare an apartment of a million triangles with the same at 20,000, from the same places."""
    plain = generate_apartment(0, triangles=20_000)
    plain = dataclasses.replace(plain, navmesh=NavMesh.build(plain.vertices, plain.triangles, NavMeshSettings()))
    curved = dataclasses.replace(generate_apartment(0, triangles=1_000_000), navmesh=plain.navmesh)
    with embree(plain) as few, embree(curved) as many:
        rates = interleaved({"plain": few.draw, "curved": many.draw}, seconds)
    what = f"{len(curved.triangles):,} triangles to {len(plain.triangles):,}"
    return [ratio(what, rates, "curved", "plain", 0.3)]


def detail(data: Path, seconds: float) -> list[Row]:
    """Compare scenes of 30,000 triangles with the same ones before they were simplified, from the same places."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        scan = Path(folder) / "scan.glb"
        make_scan(scan, num_triangles=5_000_000, num_textures=1, side=64)
        for path in (data / "scenes" / HOUSE, data / "scenes" / SHOP, scan):
            whole = load_scene(path)
            started = time.perf_counter()
            simple = load_scene(path, max_triangles=30_000)
            taken = time.perf_counter() - started
            with embree(whole) as many, embree(simple) as few:
                depth = 10 * many.render()["depth"]
                error = np.abs(10 * few.render()["depth"] - depth)
                rates = interleaved({"whole": many.draw, "simple": few.draw}, seconds)
            what = f"{len(simple.triangles):,} of {len(whole.triangles):,} triangles of {path.stem}"
            speed = float(np.median(rates["calibration"]))
            rows += [
                ratio(what, rates, "simple", "whole", 1.0),
                Row(f"{what}: mean depth error, m", float(error.mean()), 0.05, speed, True, f"made in {taken:.1f} s"),
                Row(f"{what}: off by 5%", float((error > 0.05 * depth).mean()), 0.02, speed, True, "share of pixels"),
            ]
    return rows


def sizes(_: Path, seconds: float) -> list[Row]:
    """Compare the frames/s at 128 x 128 and 256 x 256 with those at 64 x 64."""
    with ExitStack() as stack:
        draw = {
            str(side): stack.enter_context(embree(APARTMENTS, num_views=64, camera=Camera(side, side))).draw
            for side in (64, 128, 256)
        }
        rates = interleaved(draw, seconds)
    return [
        ratio(f"{side} x {side} pixels to 64 x 64", rates, side, "64", bar)
        for side, bar in (("128", 0.33), ("256", 0.11))
    ]


def views(_: Path, seconds: float) -> list[Row]:
    """Compare the time per frame of a large batch with that of a small one."""
    with embree(APARTMENTS) as few, embree(APARTMENTS, num_views=4096) as many:
        rates = interleaved({"few": few.draw, "many": many.draw}, seconds)
    return [ratio("time a frame, N=4,096 to N=256", rates, "few", "many", 1.2, at_most=True)]


def threads(_: Path, seconds: float) -> list[Row]:
    """Compare two threads with one."""
    if numba.config.NUMBA_NUM_THREADS < 2:
        return [Row("two threads to one", None, 1.7, 0, note="this machine has one")]

    def on(count: int, draw: Callable[[], int]) -> int:
        numba.set_num_threads(count)
        return draw()

    before = numba.get_num_threads()
    with embree(APARTMENTS) as drawing_batch:
        rates = interleaved(
            {"two": partial(on, 2, drawing_batch.draw), "one": partial(on, 1, drawing_batch.draw)}, seconds
        )
    numba.set_num_threads(before)
    return [ratio("two threads to one", rates, "two", "one", 1.7)]


def memory(_: Path, __: float) -> list[Row]:
    """Measure the resident bytes per view besides its pixels, on a target that is three thousand views larger."""
    rows = []
    pixels = 4 * 64 * 64  # bytes of float32
    # Embree draws into the pictures that are handed out; OpenGL holds them on its device as well.
    for renderer, copies in (("embree", 1), ("opengl", 2)):
        held = []
        for num_views in (1024, 1024, 4096):  # the first is for what is made once
            with drawing(APARTMENTS, num_views, renderer=renderer, buffers=1) as drawing_batch:
                before = psutil.Process().memory_info().rss
                drawing_batch.draw()
                drawing_batch.draw()
                held.append(psutil.Process().memory_info().rss - before)
        figure = (held[2] - held[1]) / (4096 - 1024) - copies * pixels
        note = "more than its pixels" if copies == 1 else "more than its pixels here and on the device"
        rows.append(Row(f"{renderer}, depth, bytes a view", figure, 1024, 0, at_most=True, note=note))
    return rows


embree = partial(drawing, num_views=NUM_VIEWS, renderer="embree")


def ratio(what: str, rates: dict[str, list[float]], upper: str, lower: str, bar: float, at_most: bool = False) -> Row:
    """Return the median ratio of the frames/s of two workloads that took turns."""
    figure = float(np.median(np.divide(rates[upper], rates[lower])))
    note = f"{np.median(rates[upper]):,.0f} and {np.median(rates[lower]):,.0f} frames/s"
    return Row(f"embree, depth, {what}", figure, bar, float(np.median(rates["calibration"])), at_most, note)


PARTS: dict[str, Callable[[Path, float], list[Row]]] = {
    "depth": partial(absolute, renderer="embree", sensors=("depth",), bars={APARTMENTS: 8000, HOUSE: 8000, SHOP: 7000}),
    "rgb": partial(
        absolute, renderer="embree", sensors=("depth", "rgb"), bars={APARTMENTS: 5000, HOUSE: 5000, SHOP: 4500}
    ),
    "opengl": partial(absolute, renderer="opengl", sensors=("depth",), bars={APARTMENTS: 800, HOUSE: 250}),
    "triangles": triangles,
    "detail": detail,
    "sizes": sizes,
    "views": views,
    "threads": threads,
    "memory": memory,
}


def measured(parts: list[str], data: Path, seconds: float) -> Iterator[Row]:
    """Yield the rows of some parts as they are measured."""
    for part in parts:
        yield from PARTS[part](data, seconds)


def as_json(row: Row) -> dict[str, Any]:
    """Return a row for JSON."""
    return dataclasses.asdict(row) | {"met": row.met}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to measure each figure")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared")))
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(machine())
        print(f"{'what':<64}{'figure':>9}  {'bar':<9} {'':<13}{'Mop/s':>5}  note")
    for row in measured(options.only, options.data, options.seconds):
        rows.append(row)
        if not options.json:
            print(row, flush=True)
    if options.json:
        print(json.dumps({"machine": machine(), "rows": [as_json(row) for row in rows]}))
    if any(row.figure is not None and not row.met for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
