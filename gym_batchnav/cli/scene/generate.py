"""``gym-batchnav scene generate``: homes from seeds, written as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track


def generate(
    seeds: Annotated[list[int], typer.Argument(help="One apartment a seed.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; made if need be.")] = Path(),
    name: Annotated[str, typer.Option(help="Stem of the files, with {index} and {seed}.")] = "apartment_{seed}",
    triangles: Annotated[
        int, typer.Option(help="About how many triangles a scene has.", min=5000, max=1_000_000)
    ] = 40_000,
    area: Annotated[
        float | None, typer.Option(help="Square metres of floor plan; drawn from the seed if left out.")
    ] = None,
    storeys: Annotated[int | None, typer.Option(help="1 or 2; drawn from the seed if left out.")] = None,
    closed_doors: Annotated[
        int | None, typer.Option(help="Rooms behind closed doors; drawn from the seed if left out.", min=0)
    ] = None,
    num_episodes: Annotated[int, typer.Option(help="PointNav episodes to sample for each.", min=1)] = 100,
) -> None:
    """Generate furnished homes: a .glb with its .navmesh and .json.gz of episodes for each seed.

    Example: gym-batchnav scene generate 0 1 2 3 --out homes --area 80
    """
    import numpy as np

    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.scene.generate import generate_apartment
    from gym_batchnav.scene.save import save_glb
    from gym_batchnav.task.dataset import write_episodes
    from gym_batchnav.task.episode import sample_episodes

    console = Console(stderr=True)
    out.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(track(seeds, "Generating", console=console)):
        try:
            stem = name.format(index=index, seed=seed)
        except (LookupError, ValueError) as error:
            raise ValueError(f"--name {name!r}: only {{index}} and {{seed}} may stand in it") from error
        apartment = generate_apartment(
            seed, area=area, storeys=storeys, closed_doors=closed_doors, triangles=triangles, name=stem
        )
        save_glb(apartment, out / f"{stem}.glb")
        navmesh = NavMesh.build(apartment.vertices, apartment.triangles)
        navmesh.save(out / f"{stem}.navmesh")
        episodes = sample_episodes(navmesh, num_episodes, np.random.default_rng(seed))
        write_episodes({f"{stem}.glb": episodes}, out / f"{stem}.json.gz")
        size = (out / f"{stem}.glb").stat().st_size / 1e6
        console.print(f"{stem}: {len(apartment.triangles):,} triangles, {navmesh.navigable_area:.0f} m2, {size:.2f} MB")
