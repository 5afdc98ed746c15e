"""Stage render: speed of the renderer alone from random navigable poses, and memory of a large batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import psutil
from figures import APARTMENTS, Report, device, named_scenes, rate, save_sheet, to_numpy, wait

from gym_batchnav.bench import navigable_views
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.render.api import Target
from gym_batchnav.render.opengl import OpenGLRenderer

DEPTH = ("depth",)
COLOUR = ("rgb",)
BARS = {DEPTH: 500_000, COLOUR: 150_000}
MAX_BYTES = 8 * 2**30
SHOWN = 16  # pictures in a row
MEMORY_VIEWS = 16384
MEMORY_SCENES = 16


@contextmanager
def opened(scenes: Any) -> Iterator[tuple[SceneLibrary, OpenGLRenderer]]:
    """Provide a library and its OpenGL renderer, and close the renderer at the end."""
    library = SceneLibrary(scene_sources(scenes))
    renderer = OpenGLRenderer(library)
    try:
        yield library, renderer
    finally:
        renderer.close()


def draw_rate(target: Target, slots: np.ndarray, views: np.ndarray, seconds: float) -> tuple[float, float]:
    """Return frames/s of a target and their spread."""

    def draw() -> int:
        target.render(slots, views)
        return len(views)

    return rate(draw, seconds)


def speeds(report: Report, scene: str, name: str) -> None:
    """Report frames/s by sensor, size and number of views, and save pictures."""
    seconds = 0.5 if report.small else 1.5
    sizes = (16, 64) if report.small else (1024, 4096, 16384)
    with opened(scene) as (library, renderer):
        report.figure(f"{name}, triangles", sum(len(library.scene(k).triangles) for k in range(library.num_slots)))
        for sensors, side in ((DEPTH, 64), (COLOUR, 128)):
            camera = Camera(side, side)
            for num_views in sizes:
                slots, views = navigable_views(library, num_views, camera.eye_height)
                with closing(renderer.target(camera, sensors, num_views, device=device())) as target:
                    figure, spread = draw_rate(target, slots, views, seconds)
                what = f"{name}, {sensors[0]} {side}x{side}, N={num_views:,}"
                bar = None if report.small else BARS[sensors]
                note = f"spread {spread:.0%}, on {device()}"
                report.figure(what, figure, "frames/s", bar=bar, note=note)
        pictures(library, renderer, name)


def pictures(library: SceneLibrary, renderer: OpenGLRenderer, name: str) -> None:
    """Save a sheet of RGB and depth pictures."""
    camera = Camera(128, 128)
    slots, views = navigable_views(library, SHOWN, camera.eye_height, seed=1)
    images = renderer.target(camera, ("depth", "rgb"), SHOWN, device=device()).render(slots, views)
    images = {sensor: to_numpy(image) for sensor, image in images.items()}
    save_sheet(f"render_{name}.png", [images["rgb"], images["depth"]])


def kept_on_the_host(report: Report) -> None:
    """Report frames/s with pictures read back into main memory, to compare with those that stay on the GPU."""
    num_views = 64 if report.small else 4096
    with opened(APARTMENTS) as (library, renderer):
        slots, views = navigable_views(library, num_views, Camera().eye_height)
        target = renderer.target(Camera(), DEPTH, num_views, device="cpu")
        figure, spread = draw_rate(target, slots, views, 0.5 if report.small else 2.0)
        report.figure(
            f"apartments, depth 64x64, N={num_views:,}, read back", figure, "frames/s", note=f"spread {spread:.0%}"
        )


def memory(report: Report) -> None:
    """Report memory for RGB and depth of 16,384 views in 16 scenes, including that of OpenGL and CUDA."""
    num_views = 64 if report.small else MEMORY_VIEWS
    num_scenes = 9 if report.small else MEMORY_SCENES
    scenes = [scene for scene, _ in named_scenes()]
    more = num_scenes - 8 - (len(scenes) - 1)
    scenes += [f"procedural:0-{more - 1}"] if more > 0 else []
    before = device_bytes()
    resident = psutil.Process().memory_info().rss
    with opened(scenes) as (library, renderer):
        slots, views = navigable_views(library, num_views, Camera().eye_height)
        target = renderer.target(Camera(), ("depth", "rgb"), num_views, device=device())
        for _ in range(4):
            target.render(slots, views)
        wait()
        what = f"memory, N={num_views:,}, K={library.num_slots}, depth and RGB 64x64"
        if before is not None:
            used = (device_bytes() or 0) - before
            report.figure(f"{what}, on the GPU", used / 2**30, "GiB", bar=MAX_BYTES / 2**30, at_most=True)
        report.figure(f"{what}, scenes' share", renderer.nbytes / 2**30, "GiB")
        grown = psutil.Process().memory_info().rss - resident
        report.figure(f"{what}, main memory", grown / 2**30, "GiB")


def device_bytes() -> int | None:
    """Return the bytes of GPU memory in use by all processes; None without a GPU."""
    if device() != "cuda":
        return None
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free


def main() -> None:
    report = Report("render")
    for scene, name in named_scenes():
        with report.part(f"render, {name}"):
            speeds(report, scene, name)
    with report.part("read back"):
        kept_on_the_host(report)
    with report.part("memory"):
        memory(report)
    report.end()


if __name__ == "__main__":
    main()
