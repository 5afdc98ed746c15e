"""Benchmarks: frames per second, measured in slices of time after a warm-up that compiles everything."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.prepare import NavigationPreparer, cached_drops
from gym_batchnav.library.sources import SceneSpec, scene_sources
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.render.embree.renderer import processor_name
from gym_batchnav.system.calibration import calibrate
from gym_batchnav.system.process import num_processors

NUM_SLICES = 10
TAPE_STEPS = 100


def bench_step(
    scenes: SceneSpec | Scenes,
    num_envs: int,
    seconds: float,
    *,
    sensors: tuple[str, ...] = ("depth",),
    camera: Camera | None = None,
    renderer: str = "auto",
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
    **env_keywords: Any,
) -> dict[str, Any]:
    """Measure the frames/s of whole environment steps; ``sensors=()`` measures navigation alone.

    The agents follow shortest paths with actions recorded in advance. Random agents would end up facing walls, which
    render nearly twice as fast.

    Args:
        scenes: The scenes, see BatchNavEnv.
        num_envs: N, the number of environments.
        seconds: Duration of the measurement.
        sensors: The image sensors.
        camera: The agents' camera.
        renderer: Name of the renderer.
        threads: Number of threads of Numba; None for all.
        progress: Called with the completed share, 0 to 1.
        **env_keywords: Further keywords of BatchNavEnv.

    Returns:
        Figures for JSON: ``fps`` (median of the slices), ``fps_slices``, ``spread`` ((max - min) / median),
        ``calibration_mops`` (see ``calibrate``; median of one run per slice), ``parts`` (milliseconds per step, by
        phase), ``num_envs``, ``scenes``, ``resident_scenes``, ``triangles_per_scene``, ``sensors``, ``resolution``,
        ``renderer``, ``device``, ``machine``, ``threads``.
    """
    env = BatchNavEnv(
        num_envs, scenes=scenes, sensors=sensors, camera=camera, renderer=renderer, buffers=2, **env_keywords
    )
    with threads_of_numba(threads), closing(env):
        actions = _shortest_path_tape(env)
        taken = 0

        def step() -> int:
            nonlocal taken
            if taken % TAPE_STEPS == 0:
                env.reset(seed=0)
            env.step(actions[taken % TAPE_STEPS])
            taken += 1
            return num_envs

        _warm_up(step)
        env.timings.update(dict.fromkeys(env.timings, 0.0))
        taken = 0
        figures = _in_slices(step, seconds, progress)
        figures["parts"] = {part: 1000 * spent / taken for part, spent in env.timings.items()}
        figures.update(_circumstances(env.library, env.cameras.rig.first, sensors, num_envs))
        if sensors:
            figures.update(renderer=env.renderer.name, device=env.renderer.device)
        return figures


def bench_render(
    scenes: SceneSpec,
    num_views: int,
    seconds: float,
    *,
    sensors: tuple[str, ...] = ("depth",),
    camera: Camera | None = None,
    renderer: str = "auto",
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Measure the frames/s of the renderer alone, from random navigable poses; see ``bench_step`` for the rest."""
    with drawing(scenes, num_views, sensors=sensors, camera=camera, renderer=renderer) as drawn:
        _warm_up(drawn.draw)
        figures = _in_slices(drawn.draw, seconds, progress)
        figures["parts"] = {"render": 1000 * num_views / figures["fps"]}
        return figures | drawn.circumstances


@dataclass(frozen=True, slots=True)
class DrawnViews:
    """Views that can be drawn repeatedly: ``draw`` draws all of them and returns their number."""

    draw: Callable[[], int]
    render: Callable[[], dict[str, Any]]  # draws them and returns the images
    circumstances: dict[str, Any]  # scenes, renderer and machine


@contextmanager
def drawing(
    scenes: SceneSpec,
    num_views: int,
    *,
    sensors: tuple[str, ...] = ("depth",),
    camera: Camera | None = None,
    renderer: str = "auto",
    buffers: int = 2,
) -> Iterator[DrawnViews]:
    """Provide random navigable views and a renderer for other benchmarks; release them at the end."""
    from gym_batchnav.render.api import make_renderer

    camera = camera or Camera()
    library = SceneLibrary(scene_sources(scenes))
    slots, views = navigable_views(library, num_views, camera.eye_height)
    drawer = make_renderer(renderer, library)
    try:
        target = drawer.target(camera, sensors, num_views=num_views, buffers=buffers)

        def draw() -> int:
            target.render(slots, views)
            return num_views

        circumstances = _circumstances(library, camera, sensors, num_views)
        render = partial(target.render, slots, views)
        yield DrawnViews(draw, render, circumstances | {"renderer": drawer.name, "device": drawer.device})
    finally:
        drawer.close()


def navigable_views(
    library: SceneLibrary, num_views: int, eye_height: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return slots [N], which cycle through the scenes, and level views [N, 4, 4] from random navigable places.

    Raises:
        ValueError: A scene has no walkable area.
    """
    slots = np.arange(num_views, dtype=np.int32) % library.num_slots
    rng = np.random.default_rng(seed)
    positions = np.empty((num_views, 3), np.float32)
    preparer = NavigationPreparer(NavMeshSettings(), cache=DiskCache())
    for slot in range(library.num_slots):
        here = slots == slot
        scene = library.scene(slot)
        navmesh = preparer.navmesh(scene)
        standing = navmesh.random_points(int(here.sum()), rng)
        positions[here] = navmesh.visible_floor(standing, cached_drops(scene, navmesh, preparer.cache))
    headings = rng.uniform(-np.pi, np.pi, num_views).astype(np.float32)
    return slots, view_matrices(positions, headings, eye_height)


def interleaved(workloads: Mapping[str, Callable[[], int]], seconds: float) -> dict[str, list[float]]:
    """Measure the frames/s of workloads in turns, NUM_SLICES each, so that other load affects all of them equally.

    Args:
        workloads: By name; each renders some frames and returns their number.
        seconds: Total time per workload.

    Returns:
        The frames/s of every turn, by workload; compare workloads by the median of the ratios of their turns.
        ``calibration`` has the Mop/s of the calibration loop in every round.
    """
    for work in workloads.values():
        _warm_up(work)
    calibrate()
    rates: dict[str, list[float]] = {name: [] for name in (*workloads, "calibration")}
    for _ in range(NUM_SLICES):
        for name, work in workloads.items():
            rates[name].append(_rate(work, seconds / NUM_SLICES))
        rates["calibration"].append(calibrate())
    return rates


@contextmanager
def threads_of_numba(count: int | None) -> Iterator[None]:
    """Run kernels with at most ``count`` threads inside the block; None changes nothing."""
    before = numba.get_num_threads()
    if count is not None:
        numba.set_num_threads(min(count, before))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _shortest_path_tape(env: BatchNavEnv) -> list[np.ndarray]:
    """Return the actions [N] of the shortest-path follower in the first steps after ``env.reset(seed=0)``."""
    blind = BatchNavEnv(env.num_envs, library=env.library, sensors=())
    blind.reset(seed=0)
    actions = []
    for _ in range(TAPE_STEPS):
        actions.append(blind.shortest_path_actions())
        blind.step(actions[-1])
    blind.close()
    return actions


def _warm_up(work: Callable[[], int], seconds: float = 0.5) -> None:
    """Repeat the workload at least three times and for half a second, until all is compiled and caches are warm."""
    for _ in range(3):
        work()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        work()


def _rate(work: Callable[[], int], seconds: float) -> float:
    """Return the frames/s of a workload, which is repeated until the time is over, at least once."""
    start = time.perf_counter()
    frames = 0
    while (elapsed := time.perf_counter() - start) < seconds or frames == 0:
        frames += work()
    return frames / elapsed


def _in_slices(work: Callable[[], int], seconds: float, progress: Callable[[float], None] | None) -> dict[str, Any]:
    """Return the frames/s of a workload in slices of equal time, each with a calibration."""
    calibrate()
    rates = []
    calibrations = []
    for index in range(NUM_SLICES):
        rates.append(_rate(work, seconds / NUM_SLICES))
        calibrations.append(calibrate())
        if progress is not None:
            progress((index + 1) / NUM_SLICES)
    median = float(np.median(rates))
    return {
        "fps": median,
        "spread": float(np.ptp(rates)) / median,
        "fps_slices": [round(rate, 1) for rate in rates],
        "calibration_mops": float(np.median(calibrations)),
    }


def _circumstances(library: SceneLibrary, camera: Camera, sensors: tuple[str, ...], num_envs: int) -> dict[str, Any]:
    """Return the scenes, sensors and machine of a measurement."""
    triangles = [len(library.scene(slot).triangles) for slot in library.active.tolist()]
    return {
        "num_envs": num_envs,
        "scenes": len(library.names),
        "resident_scenes": len(library.active),
        "triangles_per_scene": int(np.mean(triangles)),
        "sensors": list(sensors),
        "resolution": [camera.width, camera.height],
        "machine": machine(),
        "threads": numba.get_num_threads(),
    }


def machine() -> str:
    """Return the processor, the number of usable cores and the operating system, to print with figures."""
    return f"{processor_name()}, {num_processors()} cores, {platform.platform()}"
