"""``gym-batchnav scene navmesh``: measure and draw the walkable area of a scene."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.scene.choice import (
    FrameScale,
    FrameUp,
    MaxTriangles,
    Only,
    TextureSize,
    chosen_source,
    load_options,
)
from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
    from gym_batchnav.scene.scene import Scene

_SHOWN = 20  # islands


def navmesh(
    scene: Annotated[str, typer.Argument(help="A scene, as for scenes=, or a .navmesh file to describe.")],
    out: Annotated[
        Path | None, typer.Option(help="PNG file of the map; SCENE_navmesh.png in this folder by default.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Also write the navmesh to this .navmesh file, for Habitat and Recast.")
    ] = None,
    radius: Annotated[float, typer.Option(help="Agent radius in metres.", min=0)] = 0.1,
    height: Annotated[float, typer.Option(help="Agent height in metres.", min=0)] = 1.5,
    climb: Annotated[float, typer.Option(help="Highest step that the agent can climb, in metres.", min=0)] = 0.2,
    slope: Annotated[
        float, typer.Option(help="Steepest slope that the agent can walk on, in degrees.", min=0, max=90)
    ] = 45.0,
    only: Only = None,
    up: FrameUp = None,
    scale: FrameScale = None,
    texture_size: TextureSize = "auto",
    max_triangles: MaxTriangles = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Build the navmesh of a scene, print its area and islands, and draw a map per storey, one shade per island.

    Environments use a navmesh that lies beside the scene's file under the same name instead of building one. With
    --texture-size and --max-triangles as in a run, the scene that the run has cached is found again; the navmesh is
    always that of the whole geometry.

    Example: gym-batchnav scene navmesh home.glb --radius 0.2 --save home.navmesh
    """
    from gym_batchnav import viz
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.warmup import warm_up_building
    from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
    from gym_batchnav.system.storage import check_destination

    if save is not None:
        check_destination(save)
        if save.suffix.lower() != ".navmesh":
            raise ValueError(f"--save '{save}': the name of a navmesh file must end in .navmesh")
    started = time.perf_counter()
    if scene.lower().endswith(".navmesh"):
        name = Path(scene).stem
        file = Path(scene).expanduser()
        mesh = NavMesh.load(file)
        out = out or Path(f"{name}_navmesh.png")
    else:
        source = chosen_source(scene, only, DiskCache(), up, scale, load_options(texture_size, max_triangles))
        name = source.name
        out = out or Path(f"{name.replace('/', '_')}_navmesh.png")
        viz.check_picture_path(out)
        settings = NavMeshSettings(
            agent_radius=radius, agent_height=height, agent_max_climb=climb, agent_max_slope_deg=slope
        )
        loaded = source.load()
        loaded = loaded if loaded.unsimplified is None else loaded.unsimplified()
        warm_up_building()  # so that the seconds below do not include compiling
        started = time.perf_counter()
        mesh = _built(loaded, settings)
    seconds = time.perf_counter() - started
    viz.save_picture(viz.navmesh_overview(mesh, size=1000), out)
    if save is not None:
        mesh.save(save)
    _report(name, mesh, seconds, out, save, as_json)


def _built(scene: Scene, settings: NavMeshSettings) -> NavMesh:
    """Build the navmesh of a scene; a bar shows progress if it takes long."""
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.system.progress import late_progress

    percent = 0
    with late_progress(f"Building the navmesh of {scene.name}, percent", 100) as done:

        def progress(stage: str, share: float) -> None:
            nonlocal percent
            done(int(100 * share) - percent)
            percent = int(100 * share)

        try:
            return NavMesh.build(scene.vertices, scene.solid_triangles, settings, progress)
        except ValueError as error:
            raise ValueError(f"scene '{scene.name}': {error}") from error


def _report(name: str, mesh: NavMesh, seconds: float, out: Path, save: Path | None, as_json: bool) -> None:
    """Print the figures and the files that were written."""
    islands = [
        {"area": island.area, "radius": island.radius, "polygons": len(island.polygons)} for island in mesh.islands
    ]
    if as_json:
        figures = {"area": float(mesh.navigable_area), "polygons": mesh.num_polygons, "seconds": seconds}
        files = {"map": str(out), "navmesh": None if save is None else str(save)}
        print(json.dumps({"name": name, **figures, "islands": islands, **files}))
        return
    num_polygons = counted(mesh.num_polygons, "polygon")
    table = Table(title=f"{escape(name)}: {mesh.navigable_area:.2f} m2, {num_polygons}, {seconds:.2f} s")
    for heading in ("island", "area, m2", "radius, m", "polygons"):
        table.add_column(heading, justify="right")
    for index, island in sorted(enumerate(islands), key=lambda pair: -pair[1]["area"])[:_SHOWN]:
        table.add_row(str(index), f"{island['area']:.2f}", f"{island['radius']:.2f}", str(island["polygons"]))
    console = Console(soft_wrap=not sys.stdout.isatty())
    console.print(table)
    if len(islands) > _SHOWN:
        console.print(f"and {len(islands) - _SHOWN} smaller islands")
    console.print(f"map: {out}", highlight=False, markup=False)
    if save is not None:
        console.print(f"navmesh: {save}, {save.stat().st_size:,} bytes", highlight=False, markup=False)
