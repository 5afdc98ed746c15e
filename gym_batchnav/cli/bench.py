"""``gym-batchnav bench``: frames per second on this machine."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gym_batchnav.cli.flags import listed, refuse_options
from gym_batchnav.system.progress import share_progress

_CIRCUMSTANCES = (
    "num_envs", "scenes", "resident_scenes", "triangles_per_scene", "sensors", "resolution", "renderer", "device",
    "machine", "threads",
)  # fmt: skip
_OF_NAVIGATION = ("what", "scenes", "num_envs", "seconds", "as_json")  # parameters that apply without images


class Measured(str, Enum):
    """The measurements of the command."""

    STEP = "step"
    RENDER = "render"
    NAVIGATION = "navigation"


def bench(
    context: typer.Context,
    what: Annotated[
        Measured,
        typer.Option(help="step: whole steps; render: images from random poses; navigation: steps without images."),
    ] = Measured.STEP,
    scenes: Annotated[
        list[str] | None, typer.Option(help="File, folder, pattern or name; repeatable (default: apartments).")
    ] = None,
    num_envs: Annotated[
        int | None,
        typer.Option(
            help="Number of agents, or of views (default: 256; 4,096 with --what navigation).",
            min=1,
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Duration after warm-up, in seconds.", min=0.1)] = 5.0,
    renderer: Annotated[str, typer.Option(help="auto, warp, opengl or embree.")] = "auto",
    sensors: Annotated[
        str, typer.Option(help="Any of depth, rgb, semantic, normals, points, separated by commas.")
    ] = "depth",
    resolution: Annotated[str, typer.Option(help="Pixels: 64 for square images, 128x72 for width by height.")] = "64",
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Measure frames per second on this machine.

    A whole step moves the agents, scores them, begins episodes, renders and observes. "calibration" is the speed of a
    fixed loop on one thread, by which figures of two machines can be compared.

    Example: gym-batchnav bench --num-envs 1024 --sensors rgb,depth
    """
    from gym_batchnav.bench import bench_render, bench_step

    if what is Measured.NAVIGATION:
        refuse_options(context, _OF_NAVIGATION, "with --what navigation, which draws no images")
    spec: Any = scenes or "apartments"
    names = listed(sensors) if what is not Measured.NAVIGATION else ()
    count = num_envs or (4096 if what is Measured.NAVIGATION else 256)
    measure = bench_render if what is Measured.RENDER else bench_step
    camera = camera_of(resolution)
    with share_progress(f"Measuring {what.value}") as show:
        figures = measure(spec, count, seconds, sensors=names, camera=camera, renderer=renderer, progress=show)
    if as_json:
        print(json.dumps({"bench": what.value, **figures}))
    else:
        Console().print(_table(what.value, figures))


def camera_of(resolution: str) -> Any:
    """Return a camera with a resolution such as 64 or 128x72."""
    from gym_batchnav.geometry import Camera

    match = re.fullmatch(r"([0-9]{1,6})(?:x([0-9]{1,6}))?", resolution.lower())
    if match is None:
        raise ValueError(f"resolution={resolution!r}: write 64 or 128x72")
    return Camera(width=int(match[1]), height=int(match[2] or match[1]))


def _table(what: str, figures: dict[str, Any]) -> Table:
    table = Table(show_header=False, title=f"bench, {what}")
    table.add_column(style="bold")
    table.add_column()
    table.add_row("frames/s", f"{figures['fps']:,.0f} (spread {100 * figures['spread']:.0f}%)")
    table.add_row("calibration, Mop/s", f"{figures['calibration_mops']:,.0f}")
    for part, milliseconds in figures["parts"].items():
        table.add_row(f"{part}, ms per step", f"{milliseconds:.3f}")
    for key in _CIRCUMSTANCES:
        if key in figures:
            value = figures[key]
            separator = " x " if key == "resolution" else ", "
            shown = separator.join(map(str, value)) if isinstance(value, list) else str(value)
            table.add_row(key.replace("_", " "), shown or "none")
    return table
