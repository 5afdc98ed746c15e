"""``gym-batchnav episodes``: make and describe PointNav episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

episodes = typer.Typer(help="Make and describe PointNav episodes in Habitat's format.", no_args_is_help=True)


@episodes.command()
def generate(
    scenes: Annotated[list[str], typer.Argument(help="Scene files, or names of shipped scenes.")],
    out: Annotated[Path, typer.Option(help="The file to write: .json.gz or .json.")] = Path("episodes.json.gz"),
    num: Annotated[int, typer.Option(help="Episodes for each scene.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Same seed, same episodes.", min=0)] = 0,
    min_distance: Annotated[float, typer.Option(help="Geodesic metres from start to goal, at least.")] = 1.0,
    max_distance: Annotated[float, typer.Option(help="Geodesic metres from start to goal, at most.")] = 30.0,
) -> None:
    """Sample episodes by the rules of Habitat's generator."""
    import numpy as np

    from gym_batchnav.scene.cache import DiskCache
    from gym_batchnav.scene.sources import scene_sources
    from gym_batchnav.task.dataset import write_episodes
    from gym_batchnav.task.episode import SamplingRules, sample_episodes
    from gym_batchnav.task.prepare import NavigationPreparer

    rules = SamplingRules(min_distance=min_distance, max_distance=max_distance)
    preparer = NavigationPreparer(cache=DiskCache())
    console = Console(stderr=True)
    sampled = {}
    for index, source in enumerate(track(scene_sources(scenes), "Sampling", console=console)):
        navmesh = preparer.navmesh(source.load())
        sampled[f"{source.name}.glb"] = sample_episodes(navmesh, num, np.random.default_rng([seed, index]), rules)
    write_episodes(sampled, out)
    console.print(f"{out}: {num * len(sampled):,} episodes in {len(sampled)} scenes", highlight=False)


@episodes.command()
def info(
    file: Annotated[Path, typer.Argument(help="A Habitat PointNav dataset, .json or .json.gz.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Say what scenes and distances a file of episodes holds."""
    import numpy as np

    from gym_batchnav.task.dataset import read_episodes

    rows = {}
    for name, found in sorted(read_episodes(file).items()):
        straight = np.linalg.norm(found.start - found.goal, axis=1)
        rows[name] = {
            "episodes": len(found),
            "goals": len(found.goals),
            "distance_min": float(found.distance.min()),
            "distance_mean": float(found.distance.mean()),
            "distance_max": float(found.distance.max()),
            "detour_mean": float(np.mean(found.distance / np.maximum(straight, 1e-6))),
        }
    if as_json:
        print(json.dumps({"file": str(file), "scenes": rows}))
        return
    total = sum(row["episodes"] for row in rows.values())
    table = Table(title=f"{file.name}: {total:,} episodes in {len(rows)} scenes (geodesic distances in metres)")
    for heading in ("scene", "episodes", "goals", "nearest", "mean", "farthest", "geodesic / straight"):
        table.add_column(heading, justify="left" if heading == "scene" else "right")
    for name, row in rows.items():
        distances = (f"{row[key]:.2f}" for key in ("distance_min", "distance_mean", "distance_max", "detour_mean"))
        table.add_row(name, f"{row['episodes']:,}", f"{row['goals']:,}", *distances)
    Console().print(table)
