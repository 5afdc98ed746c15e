"""An experiment: what a set of visible triangles per navmesh cell would gain in tracing.

python benchmarks/visibility.py                          # an apartment and aws_small_house, about three minutes
python benchmarks/visibility.py --cells 64 --seconds 5

A cell is a polygon of the navmesh. Its set holds the triangles that dense rays from a few places in it hit, so it may
lack some that are seen from between: sets that are safe would be larger, and the gain measured here is an upper bound.
Views are drawn with one tree per cell, and, as the limit of any such scheme, with one tree per view that has only the
triangles hit by that view's own pixels. All trees are measured in turns, in one process; a ratio is the median of the
ratios of the turns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.bench import interleaved, machine
from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh import NavMesh, NavMeshSettings
from gym_batchnav.preparation.navigation import NavigationPreparer, cached_drops
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.scene.scene import Scene

VIEWS_PER_CELL = 8
PROBES = 8  # places in a cell from which rays are cast
PROBE_HEADINGS = 8
PROBE_CAMERA = Camera(256, 256, hfov_deg=100.0)  # sees more than the agents' camera in each direction
SENSORS = (("depth",), ("depth", "rgb"))


def eyes_in_cells(scene: Scene, navmesh: NavMesh, cells: np.ndarray, each: int, rng: np.random.Generator) -> np.ndarray:
    """Return points [len(cells), each, 3] on the visible floor of cells, uniform in each."""
    points, polygons = navmesh.random_points_and_polygons(200_000, rng)
    chosen = [points[polygons == cell][:each] for cell in cells]
    floor = navmesh.visible_floor(np.concatenate(chosen), cached_drops(scene, navmesh, DiskCache()))
    return floor.reshape(len(cells), each, 3)


def seen_triangles(renderer: EmbreeRenderer, views: np.ndarray, camera: Camera) -> np.ndarray:
    """Return the rows of the triangles that any of the views [N, 4, 4] sees; their ids must be their rows plus one."""
    target = renderer.target(camera, ("semantic",), num_views=len(views), buffers=1)
    seen = np.unique(target.render(np.zeros(len(views), np.int32), views)["semantic"])
    return seen[seen > 0] - 1


def with_triangles(scene: Scene, rows: np.ndarray) -> Scene:
    """Return a scene with some of its triangles; a scene needs one, so that of an empty view keeps the first."""
    rows = rows if len(rows) else np.zeros(1, np.int64)
    return replace(
        scene,
        triangles=scene.triangles[rows],
        triangle_material=scene.triangle_material[rows],
        triangle_object=scene.triangle_object[rows],
    )


def experiment(scene: Scene, num_cells: int, seconds: float) -> None:
    """Print the sizes of the sets, the pixels that they change, and what they gain."""
    rng = np.random.default_rng(0)
    navmesh = NavigationPreparer(NavMeshSettings(), cache=DiskCache()).navmesh(scene)
    area = navmesh.polygon_area_xz
    large = np.flatnonzero(area > area.sum() / 2000)  # others have too few random points
    cells = rng.choice(large, min(num_cells, len(large)), replace=False, p=area[large] / area[large].sum())
    eyes = eyes_in_cells(scene, navmesh, cells, VIEWS_PER_CELL + PROBES, rng)
    agents = eyes[:, :VIEWS_PER_CELL].reshape(-1, 3)
    headings = rng.uniform(-np.pi, np.pi, len(agents)).astype(np.float32)
    views = view_matrices(agents, headings, PROBE_CAMERA.eye_height)
    numbered = replace(scene, triangle_object=np.arange(1, len(scene.triangles) + 1, dtype=np.int32), objects=())
    probing = EmbreeRenderer(SceneLibrary.from_scenes([numbered]))
    around = np.linspace(-np.pi, np.pi, PROBE_HEADINGS, endpoint=False, dtype=np.float32)
    cell_rows = []
    for places in eyes[:, VIEWS_PER_CELL:]:
        probes = view_matrices(np.repeat(places, len(around), axis=0), np.tile(around, len(places)), 1.25)
        cell_rows.append(seen_triangles(probing, probes, PROBE_CAMERA))
    view_rows = [seen_triangles(probing, view[None], Camera()) for view in views]
    probing.close()
    cell_of_view = np.repeat(np.arange(len(cells), dtype=np.int32), VIEWS_PER_CELL)
    trees: dict[str, tuple[list[Scene], np.ndarray]] = {
        "the scene": ([scene], np.zeros(len(views), np.int32)),
        "cells": ([with_triangles(scene, rows) for rows in cell_rows], cell_of_view),
        "views": ([with_triangles(scene, rows) for rows in view_rows], np.arange(len(views), dtype=np.int32)),
    }
    chosen = f"{len(views)} views in {len(cells)} of {navmesh.num_polygons} cells"
    print(f"\n{scene.name}: {len(scene.triangles):,} triangles; {chosen}")
    for name, rows in (("cell", cell_rows), ("view", view_rows)):
        print(f"visible triangles per {name}: {np.mean([len(row) for row in rows]):,.0f}")
    draws: dict[str, Callable[[], dict[str, np.ndarray]]] = {}
    for name, (scenes, slots) in trees.items():
        renderer = EmbreeRenderer(SceneLibrary.from_scenes(scenes))
        for sensors in SENSORS:
            target = renderer.target(Camera(), sensors, num_views=len(views))
            draws[f"{name}, {' + '.join(sensors)}"] = partial(target.render, slots, views)
    report(draws, len(views), seconds)


def report(draws: dict[str, Callable[[], dict[str, Any]]], num_views: int, seconds: float) -> None:
    """Print the pixels of the smaller trees that differ from the scene's, and the frames/s of all."""

    def frames(draw: Callable[[], Any]) -> int:
        draw()
        return num_views

    depth = {name: draw()["depth"].copy() for name, draw in draws.items()}
    rates = interleaved({name: partial(frames, draw) for name, draw in draws.items()}, seconds)
    for name in draws:
        whole = f"the scene, {name.partition(', ')[2]}"
        wrong = (depth[name] != depth[whole]).mean()
        low, ratio, high = np.quantile(np.divide(rates[name], rates[whole]), (0.25, 0.5, 0.75))
        print(f"trees of {name:<24}{np.median(rates[name]):>8,.0f} frames/s", end="")
        print(f"  {ratio:.2f} of the scene's ({low:.2f} to {high:.2f}), {wrong:.3%} of the pixels differ")
    print(f"calibration {np.median(rates['calibration']):.0f} Mop/s, load {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=32, help=f"of {VIEWS_PER_CELL} views each")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to measure each figure")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared")))
    options = parser.parse_args()
    print(machine())
    house = options.data / "scenes" / "aws_small_house" / "aws_small_house.glb"
    for source in scene_sources(["apartment_0", *([house] if house.is_file() else [])]):
        experiment(source.load(), options.cells, options.seconds)


if __name__ == "__main__":
    main()
