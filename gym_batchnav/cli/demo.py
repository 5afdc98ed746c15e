"""``gym-batchnav demo``: run agents in furnished homes, measure the speed and draw images."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gym_batchnav.system.wording import counted


class DemoTask(str, Enum):
    """Tasks of the demonstration."""

    POINTNAV = "pointnav"
    DRONENAV = "dronenav"


def demo(
    scenes: Annotated[
        list[str] | None, typer.Option(help="File, folder, pattern or name; repeatable (default: apartments).")
    ] = None,
    task: Annotated[
        DemoTask, typer.Option(help="pointnav: agents walk; dronenav: agents fly, which takes longer to prepare.")
    ] = DemoTask.POINTNAV,
    num_envs: Annotated[int, typer.Option(help="Number of agents.", min=1)] = 1024,
    seconds: Annotated[float, typer.Option(help="Duration of the run, in seconds.", min=0.1)] = 10.0,
    renderer: Annotated[str, typer.Option(help="auto, warp, opengl or embree.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for the images; created if missing.")] = Path("batchnav-demo"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as one JSON object on the last line.")
    ] = False,
) -> None:
    """Run agents through furnished homes, measure the speed, and write images of the run.

    Most agents follow the shortest path to their goals; every eighth acts at random. At the end the command prints a
    table of frames per second, the time of each phase of a step, and the followers' success. It writes three files to
    --out: mosaic.png (the agents' views), map.png (their paths from above) and clip.gif. It ends with what to try next.
    """
    from gym_batchnav.actions.choice import make_actions
    from gym_batchnav.env.ids import make_batch
    from gym_batchnav.library.sources import are_shipped, scene_sources
    from gym_batchnav.library.warmup import batch_workloads
    from gym_batchnav.system.compilation import compile_ahead
    from gym_batchnav.system.progress import share_progress
    from gym_batchnav.system.storage import check_folder, make_folder
    from gym_batchnav.viz.demonstration import demonstrate, draw_demonstration

    spec = scenes or "apartments"
    console = Console(stderr=as_json, soft_wrap=True)
    scene_sources(spec)  # raises for a name that no scene has, before kernels are compiled
    check_folder(out)
    started = time.perf_counter()
    flies = task is DemoTask.DRONENAV
    samples = flies or not are_shipped(spec)
    moving = make_actions("flight" if flies else "discrete").workload

    def compile_for(sensor: str) -> None:
        compile_ahead(
            batch_workloads(renderer, (sensor,), prepares=samples, follows=not flies, samples=samples, moving=moving)
        )

    compile_for("depth")
    name = "DroneNav" if flies else "PointNav"
    env: Any = make_batch(name, num_envs, scenes=spec, renderer=renderer)
    try:
        device = f"{env.renderer.name} on {env.renderer.device}"
        console.print(
            f"Ready after {time.perf_counter() - started:.1f} s: {counted(len(env.library.names), 'scene')}, {device}"
        )
        with share_progress("Stepping") as show:
            summary = demonstrate(env, seconds, 0, lambda share, fps: show(share, f"{fps:,.0f} frames/s"))
        console.print(_table(summary))
        compile_for("rgb")  # only now, so that the first step waits for half as many kernels
        make_folder(out)
        with console.status("Drawing mosaic, map and clip"):
            files = draw_demonstration(env, out)
    finally:
        env.close()
    for path, content in files.items():
        console.print(f"{path}  {content}", highlight=False, markup=False)
    console.print("\nWhat to try next:")
    following = _next(scenes or ())
    for command, purpose in following:
        console.print(f"  {command:<{max(len(one) for one, _ in following)}}  {purpose}", highlight=False, markup=False)
    if as_json:
        print(json.dumps({**summary, "renderer": device, "files": [str(path) for path in files]}))


def _next(scenes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return what to try next, each command with its purpose: in the user's scenes, if there are any."""
    shown = "".join(f" {shlex.quote(one)}" for one in scenes)
    trained = "".join(f" --scenes {shlex.quote(one)}" for one in scenes)
    return (
        (f"gym-batchnav view{shown}", "walk through the scenes in the browser (extra [view])"),
        (f"gym-batchnav scene info {shown.strip() or 'my_house.glb'}", "see whether scenes are fit to walk in"),
        (f"gym-batchnav train{trained} --time-limit 10m --out runs/first", "train an agent (extra [train])"),
    )


def _table(summary: dict[str, Any]) -> Table:
    table = Table(
        show_header=False, title=f"{counted(summary['num_envs'], 'agent')}, {counted(summary['steps'], 'step')}"
    )
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("frames/s", f"{summary['fps']:,.0f}")
    table.add_section()
    for part, milliseconds in summary["parts"].items():
        table.add_row(f"{part}, ms per step", f"{milliseconds:.2f}")
    table.add_section()
    table.add_row("followers' episodes", f"{summary['episodes']}")
    for name in ("success", "spl"):
        table.add_row(f"followers' {name}", "-" if summary[name] is None else f"{summary[name]:.3f}")
    return table
