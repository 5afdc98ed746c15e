"""``gym-batchnav scene generate``: write procedural scenes to files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.scene.scene import Scene

_MAX_SCENES = 100_000  # per call
_NUM_EPISODES = 100  # in the file of each scene


def generate(
    seeds: Annotated[list[str], typer.Argument(help="Seeds, or ranges such as 0-9; one scene per seed.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; created if missing.")] = Path(),
    kind: Annotated[str, typer.Option(help="home, office, shop, hall, or mixed: chosen by the seed.")] = "home",
    damage: Annotated[
        float,
        typer.Option(
            help="Amount of missing and uneven parts, as in scans and games: 0 for none, 1 for most.", min=0.0, max=1.0
        ),
    ] = 0.0,
    triangles: Annotated[
        int, typer.Option(help="Approximate number of triangles per scene.", min=5000, max=1_000_000)
    ] = 40_000,
    area: Annotated[
        float | None,
        typer.Option(
            help="Floor area in square metres: 25 to 400 for homes, 150 to 1200 for offices, 80 to 900 for shops, "
            "300 to 2400 for halls; random by default."
        ),
    ] = None,
    storeys: Annotated[
        int | None,
        typer.Option(help="Number of storeys of homes, 1 or 2; 2 needs --area 120 or more. Random by default."),
    ] = None,
) -> None:
    """Generate furnished homes or other buildings: for each seed a .glb, its .navmesh, and 100 episodes (.json.gz).

    Example: gym-batchnav scene generate 0-9 42 --out homes --area 80
    """
    import numpy as np

    from gym_batchnav.episodes.habitat import write_episodes
    from gym_batchnav.episodes.samplers import PointEpisodes
    from gym_batchnav.homes import generate_scene
    from gym_batchnav.library.warmup import building_workloads
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.scene.save import save_glb
    from gym_batchnav.system.compilation import compile_ahead
    from gym_batchnav.system.progress import late_progress
    from gym_batchnav.system.storage import check_folder, make_folder
    from gym_batchnav.system.wording import counted

    numbers = _numbers(seeds)
    prefix = "apartment" if kind == "home" else "scene" if kind == "mixed" else kind
    check_folder(out)
    console = Console(soft_wrap=True)
    compile_ahead(building_workloads(measures=True))
    with late_progress("Generating scenes", len(numbers)) as done:
        for seed in numbers:
            stem = f"{prefix}_{seed}"
            home = generate_scene(
                seed, kind=kind, area=area, storeys=storeys, triangles=triangles, damage=damage, name=stem
            )
            make_folder(out)  # not for wrong options
            save_glb(home, out / f"{stem}.glb")
            whole = home if home.unsimplified is None else home.unsimplified()
            navmesh = NavMesh.build(whole.vertices, whole.triangles)
            navmesh.save(out / f"{stem}.navmesh")
            episodes = PointEpisodes().sample(home, navmesh, _NUM_EPISODES, np.random.default_rng(seed))
            write_episodes({f"{stem}.glb": episodes}, out / f"{stem}.json.gz")
            console.print(f"{stem}: {_summary(home, navmesh)}", highlight=False, markup=False, soft_wrap=True)
            done()
    console.print(
        f"{counted(len(numbers), 'scene')} in '{out}', {counted(_NUM_EPISODES, 'episode')} each",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _numbers(seeds: Sequence[str]) -> list[int]:
    """Return the seeds in a list of numbers and ranges, without duplicates, in order."""
    numbers: dict[int, None] = {}
    for part in seeds:
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not match:
            raise ValueError(f"seed {part!r}: pass a whole number of 0 or more, or a range such as 0-9")
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first:
            raise ValueError(f"seeds {part!r}: the last seed is smaller than the first; write {last}-{first}")
        if len(numbers) + last - first >= _MAX_SCENES:
            raise ValueError(f"seeds {part!r}: more than {_MAX_SCENES:,} scenes in one call; pass fewer seeds")
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)


def _summary(home: Scene, navmesh: NavMesh) -> str:
    from gym_batchnav.system.wording import counted

    area = home.metadata["area"]
    rooms = home.metadata["rooms"]
    assert isinstance(area, float) and isinstance(rooms, list)
    islands = [island.area for island in navmesh.islands]
    return (
        f"{area:.1f} m2 of floor, {navmesh.navigable_area:.1f} m2 walkable on {counted(len(islands), 'island')}, "
        f"the largest {max(islands):.1f} m2, {counted(len(rooms), 'room')}, {len(home.triangles):,} triangles"
    )
