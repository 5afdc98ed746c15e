"""``gym-batchnav scene navmesh``: where one can walk in a scene, in figures and from above."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


def navmesh(
    file: Annotated[Path, typer.Argument(help="A scene file, or a .navmesh to describe as it is.")],
    out: Annotated[Path | None, typer.Option(help="The map to draw, a PNG; FILE_navmesh.png here by default.")] = None,
    save: Annotated[Path | None, typer.Option(help="Also write the navmesh, for Habitat and Recast's tools.")] = None,
    radius: Annotated[float, typer.Option(help="Of the agent, metres.")] = 0.1,
    height: Annotated[float, typer.Option(help="Of the agent, metres.")] = 1.5,
    climb: Annotated[float, typer.Option(help="Highest step, metres.")] = 0.2,
    slope: Annotated[float, typer.Option(help="Steepest floor, degrees.")] = 45.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Build the navmesh of a scene: its area and islands in a table, and a map from above, one shade an island.

    Example: gym-batchnav scene navmesh home.glb --radius 0.2 --save home.navmesh
    """
    from gym_batchnav import viz
    from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
    from gym_batchnav.scene.load import load_scene

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    started = time.perf_counter()
    if file.suffix == ".navmesh":
        mesh = NavMesh.load(file)
    else:
        loaded = load_scene(file)
        settings = NavMeshSettings(
            agent_radius=radius, agent_height=height, agent_max_climb=climb, agent_max_slope_deg=slope
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("Building", total=1.0)
            started = time.perf_counter()
            mesh = NavMesh.build(
                loaded.vertices,
                loaded.triangles,
                settings,
                lambda stage, share: progress.update(task, description=stage, completed=share),
            )
    seconds = time.perf_counter() - started
    out = out or Path(f"{file.stem}_navmesh.png")
    viz.save_picture(viz.navmesh_map(mesh, size=1000).picture, out)
    if save is not None:
        mesh.save(save)
    islands = [
        {"area": island.area, "radius": island.radius, "polygons": len(island.polygons)} for island in mesh.islands
    ]
    if as_json:
        figures = {"area": float(mesh.navigable_area), "polygons": mesh.num_polygons, "seconds": seconds}
        print(json.dumps({**figures, "islands": islands, "map": str(out)}))
        return
    table = Table(title=f"{file.name}: {mesh.navigable_area:.2f} m2, {mesh.num_polygons} polygons, {seconds:.2f} s")
    for heading in ("island", "area, m2", "radius, m", "polygons"):
        table.add_column(heading, justify="right")
    for index, island in sorted(enumerate(islands), key=lambda pair: -pair[1]["area"])[:20]:
        table.add_row(str(index), f"{island['area']:.2f}", f"{island['radius']:.2f}", str(island["polygons"]))
    console = Console()
    console.print(table)
    if len(islands) > 20:
        console.print(f"and {len(islands) - 20} smaller islands")
    console.print(f"map: {out}", highlight=False)
