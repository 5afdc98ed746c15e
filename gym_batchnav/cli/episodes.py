"""``gym-batchnav episodes``: sample and describe PointNav episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

episodes = typer.Typer(help="Sample and describe PointNav episodes in Habitat's format.", no_args_is_help=True)


@episodes.command()
def generate(
    scenes: Annotated[list[str], typer.Argument(help="Files, folders, patterns or names, as for scenes=.")],
    out: Annotated[Path, typer.Option(help="File to write: .json.gz or .json.")] = Path("episodes.json.gz"),
    num_episodes: Annotated[int, typer.Option(help="Number of episodes per scene.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed gives the same episodes.", min=0)] = 0,
    min_distance: Annotated[
        float, typer.Option(help="Shortest geodesic distance from start to goal, in metres.")
    ] = 1.0,
    max_distance: Annotated[
        float, typer.Option(help="Longest geodesic distance from start to goal, in metres.")
    ] = 30.0,
) -> None:
    """Sample episodes by the rules of Habitat's generator.

    Pass the file to environments as episode_file=, or put it beside the scene's file under the scene's name.

    Example: gym-batchnav episodes generate home.glb --num-episodes 500 --out home.json.gz
    """
    import numpy as np

    from gym_batchnav.episodes.habitat import write_episodes
    from gym_batchnav.episodes.sampling import SamplingRules, sample_episodes
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.preparation.kernels import warm_up_building
    from gym_batchnav.preparation.navigation import NavigationPreparer
    from gym_batchnav.system.progress import late_progress
    from gym_batchnav.system.storage import check_destination
    from gym_batchnav.system.wording import counted

    check_destination(out)
    if not out.name.endswith((".json", ".json.gz")):
        raise ValueError(f"--out '{out}': the name of an episode file must end in .json or .json.gz")
    rules = SamplingRules(min_distance=min_distance, max_distance=max_distance)
    cache = DiskCache()
    preparer = NavigationPreparer(cache=cache)
    sources = scene_sources(scenes, cache)
    sampled = {}
    warm_up_building(measures=True)
    with late_progress("Sampling episodes of scenes", len(sources)) as done:
        for index, source in enumerate(sources):
            navmesh = preparer.navmesh(source.load())
            try:
                episodes = sample_episodes(navmesh, num_episodes, np.random.default_rng([seed, index]), rules)
            except ValueError as error:
                raise ValueError(f"scene '{source.name}': {error}") from error
            sampled[f"{source.name}.glb"] = episodes
            done()
    write_episodes(sampled, out)
    Console(stderr=True, soft_wrap=True).print(
        f"{out}: {counted(num_episodes * len(sampled), 'episode')} in {counted(len(sampled), 'scene')}",
        highlight=False,
        markup=False,
    )


@episodes.command()
def info(
    file: Annotated[Path, typer.Argument(help="Habitat PointNav dataset, .json or .json.gz.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Describe an episode file: its scenes, counts and distances.

    Example: gym-batchnav episodes info home.json.gz
    """
    import numpy as np

    from gym_batchnav.episodes.habitat import read_episodes
    from gym_batchnav.system.wording import counted

    if file.is_dir():
        raise IsADirectoryError(f"'{file}' is a folder: pass a file of episodes in it, .json or .json.gz")
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
    total = sum(int(row["episodes"]) for row in rows.values())
    content = f"{counted(total, 'episode')} in {counted(len(rows), 'scene')}"
    table = Table(title=f"{escape(file.name)}: {content} (geodesic distances in metres)")
    for heading in ("scene", "episodes", "goals", "nearest", "mean", "farthest", "geodesic / straight"):
        table.add_column(heading, justify="left" if heading == "scene" else "right")
    for name, row in rows.items():
        distances = (f"{row[key]:.2f}" for key in ("distance_min", "distance_mean", "distance_max", "detour_mean"))
        table.add_row(escape(name), f"{row['episodes']:,}", f"{row['goals']:,}", *distances)
    Console().print(table)
