"""``gym-batchnav bench``: frames per second on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gym_batchnav.cli.flags import listed
from gym_batchnav.system.progress import share_progress

bench = typer.Typer(help="Measure frames per second on this machine.", no_args_is_help=True)

Scenes = Annotated[
    list[str] | None, typer.Option(help="File, folder, pattern or name; repeatable (default: apartments).")
]
NumEnvs = Annotated[int, typer.Option(help="Number of agents (or views) in the batch.", min=1)]
Seconds = Annotated[float, typer.Option(help="Duration of the measurement after warm-up, in seconds.", min=0.1)]
RendererOption = Annotated[str, typer.Option(help="auto, opengl or embree.")]
Sensors = Annotated[str, typer.Option(help="Any of depth,rgb,semantic, separated by commas.")]
Resolution = Annotated[str, typer.Option(help="Pixels: 64 for square images, 128x72 for width by height.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


@bench.command("render", help="Measure the renderer alone, from random navigable poses.")
@bench.command("step", help="Measure whole environment steps: move, score, begin episodes, render, observe.")
def step_or_render(
    context: typer.Context,
    scenes: Scenes = None,
    num_envs: NumEnvs = 256,
    seconds: Seconds = 5.0,
    renderer: RendererOption = "auto",
    sensors: Sensors = "depth",
    resolution: Resolution = "64",
    as_json: Json = False,
) -> None:
    """Run ``bench step`` or ``bench render``, which take the same options."""
    from gym_batchnav.bench import bench_render, bench_step

    name = str(context.info_name)
    names = listed(sensors)
    camera = camera_of(resolution)
    measure: Callable[..., dict[str, Any]] = bench_step if name == "step" else bench_render
    _report(
        name,
        lambda progress: measure(
            scenes or "apartments",
            num_envs,
            seconds,
            sensors=names,
            camera=camera,
            renderer=renderer,
            progress=progress,
        ),
        as_json,
    )


@bench.command()
def navigation(
    scenes: Scenes = None,
    num_envs: NumEnvs = 4096,
    seconds: Seconds = 5.0,
    as_json: Json = False,
) -> None:
    """Measure steps of blind agents: moving, geodesic distances, rewards and new episodes, without rendering."""
    from gym_batchnav.bench import bench_step

    _report(
        "navigation",
        lambda progress: bench_step(scenes or "apartments", num_envs, seconds, sensors=(), progress=progress),
        as_json,
    )


def camera_of(resolution: str) -> Any:
    """Return a camera with a resolution such as 64 or 128x72."""
    from gym_batchnav.geometry import Camera

    match = re.fullmatch(r"([0-9]{1,6})(?:x([0-9]{1,6}))?", resolution.lower())
    if match is None:
        raise ValueError(f"--resolution {resolution!r}: write 64 or 128x72")
    return Camera(width=int(match[1]), height=int(match[2] or match[1]))


def _report(name: str, measure: Callable[[Callable[[float], None]], dict[str, Any]], as_json: bool) -> None:
    """Measure with a progress bar, then print JSON or a table."""
    with share_progress(f"bench {name}") as show:
        figures = measure(show)
    if as_json:
        print(json.dumps({"bench": name, **figures}))
        return
    table = Table(show_header=False, title=f"bench {name}")
    table.add_column(style="bold")
    table.add_column()
    table.add_row("frames/s", f"{figures['fps']:,.0f} (spread {100 * figures['spread']:.0f}%)")
    table.add_row("calibration, Mop/s", f"{figures['calibration_mops']:,.0f}")
    for part, milliseconds in figures["parts"].items():
        table.add_row(f"{part}, ms per step", f"{milliseconds:.3f}")
    for key in (
        "num_envs",
        "scenes",
        "resident_scenes",
        "triangles_per_scene",
        "sensors",
        "resolution",
        "renderer",
        "device",
        "machine",
        "threads",
    ):
        if key in figures:
            value = figures[key]
            separator = " x " if key == "resolution" else ", "
            shown = separator.join(map(str, value)) if isinstance(value, list) else str(value)
            table.add_row(key.replace("_", " "), shown or "none")
    Console().print(table)
