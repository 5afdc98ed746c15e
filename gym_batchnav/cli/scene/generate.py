"""``gym-batchnav scene generate``: homes from seeds, written as files."""

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

_MOST = 100_000  # scenes in one call


def generate(
    seeds: Annotated[list[str], typer.Argument(help="Seeds and ranges of them, such as 3 or 0-9; one home each.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; made if need be.")] = Path(),
    name: Annotated[str, typer.Option(help="Stem of the files, with {index} and {seed}.")] = "apartment_{seed}",
    triangles: Annotated[
        int, typer.Option(help="About how many triangles a scene has.", min=5000, max=1_000_000)
    ] = 40_000,
    area: Annotated[
        float | None, typer.Option(help="Square metres of floor plan, 25 to 400; drawn from the seed if left out.")
    ] = None,
    storeys: Annotated[
        int | None, typer.Option(help="1, or from 120 square metres 2; drawn from the seed if left out.")
    ] = None,
    closed_doors: Annotated[
        int | None, typer.Option(help="Rooms behind closed doors; drawn from the seed if left out.", min=0)
    ] = None,
    num_episodes: Annotated[int, typer.Option(help="PointNav episodes to sample for each.", min=1)] = 100,
) -> None:
    """Generate furnished homes: a .glb with its .navmesh and .json.gz of episodes for each seed.

    Example: gym-batchnav scene generate 0-9 42 --out homes --area 80
    """
    import numpy as np

    from gym_batchnav.episodes.habitat import write_episodes
    from gym_batchnav.episodes.sampling import sample_episodes
    from gym_batchnav.homes import generate_apartment
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.scene.save import save_glb
    from gym_batchnav.system.progress import late_progress
    from gym_batchnav.system.storage import make_folder

    numbers = _numbers(seeds)
    stems = _stems(name, numbers)
    make_folder(out)
    console = Console()
    with late_progress("Generating homes", len(numbers)) as done:
        for stem, seed in zip(stems, numbers, strict=True):
            home = generate_apartment(
                seed, area=area, storeys=storeys, closed_doors=closed_doors, triangles=triangles, name=stem
            )
            save_glb(home, out / f"{stem}.glb")
            navmesh = NavMesh.build(home.vertices, home.triangles)
            navmesh.save(out / f"{stem}.navmesh")
            episodes = sample_episodes(navmesh, num_episodes, np.random.default_rng(seed))
            write_episodes({f"{stem}.glb": episodes}, out / f"{stem}.json.gz")
            console.print(f"{stem}: {_told(home, navmesh)}", highlight=False, markup=False, soft_wrap=True)
            done()
    console.print(
        f"{_counted(len(numbers), 'home')} in '{out}', {_counted(num_episodes, 'episode')} each",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _numbers(seeds: Sequence[str]) -> list[int]:
    """The seeds that numbers and ranges name, each once, in their order.

    Raises:
        ValueError: one is neither, runs backwards, or they are too many.
    """
    numbers: dict[int, None] = {}
    for part in seeds:
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not match:
            raise ValueError(f"seed {part!r}: give a whole number of 0 or more, or a range such as 0-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"seeds {part!r}: the last is smaller than the first, write {last}-{first}")
        if len(numbers) + last - first >= _MOST:
            raise ValueError(f"seeds {part!r}: more than {_MOST:,} homes in one call, narrow the range")
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)


def _stems(name: str, seeds: Sequence[int]) -> list[str]:
    """The names of the files without their endings.

    Raises:
        ValueError: they cannot be told from ``name``, or are not all different.
    """
    try:
        stems = [name.format(index=index, seed=seed) for index, seed in enumerate(seeds)]
    except (LookupError, ValueError, AttributeError) as error:
        raise ValueError(f"--name {name!r}: only {{index}} and {{seed}} may stand in it") from error
    if len(set(stems)) < len(stems):
        raise ValueError(f"--name {name!r}: gives several homes one name, put {{seed}} or {{index}} into it")
    return stems


def _told(home: Scene, navmesh: NavMesh) -> str:
    """What there is to a home, in one line."""
    area, rooms = home.metadata["area"], home.metadata["rooms"]
    assert isinstance(area, float) and isinstance(rooms, list)
    islands = [island.area for island in navmesh.islands]
    return (
        f"{area:.1f} m2 of floor, {navmesh.navigable_area:.1f} m2 walkable on {_counted(len(islands), 'island')}, "
        f"the largest {max(islands):.1f} m2, {_counted(len(rooms), 'room')}, {len(home.triangles):,} triangles"
    )


def _counted(count: int, noun: str) -> str:
    """A number and its noun, in the plural where it takes one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
