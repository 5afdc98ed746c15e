"""``gym-batchnav scene info``: what a scene holds, what was guessed of it, and where one can walk."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.scene.choice import FrameScale, FrameUp, with_frame

if TYPE_CHECKING:
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import SceneSource
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.scene.scene import Scene

_GUESSES = ("up", "scale", "origin")  # of Scene.metadata


def info(
    scenes: Annotated[list[str], typer.Argument(help="Files, folders, patterns, names: all that scenes= takes.")],
    walkable: Annotated[bool, typer.Option(help="Also build the navmesh, which may take a while.")] = True,
    up: FrameUp = None,
    scale: FrameScale = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each scene.")] = False,
) -> None:
    """Say what scenes hold: counts, size, textures, memory, what was guessed or left out, and where one can walk.

    Example: gym-batchnav scene info home.glb "~/scenes/*.obj" procedural:7
    """
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.system.progress import late_progress

    cache, console, refused = DiskCache(), Console(), 0
    sources = [with_frame(source, cache, up, scale) for source in scene_sources(scenes, cache)]
    with late_progress("Reading scenes", len(sources)) as done:
        for source in sources:
            facts = _facts(source, cache, walkable)
            refused += "refused" in facts
            if as_json:
                print(json.dumps(facts))
            elif "refused" in facts:
                console.print(f"[red]{escape(source.name)}[/] is refused: {escape(facts['refused'])}", highlight=False)
            else:
                console.print(_table(facts))
            done()
    if refused:
        raise typer.Exit(1)


def _facts(source: SceneSource, cache: DiskCache, walkable: bool) -> dict[str, Any]:
    """What is to be said of a scene; of one that cannot be loaded, its name and why it is ``refused``."""
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.preparation.navigation import cached_navmesh

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the loader has to say stands in the table
            loaded = source.load()
    except ValueError as error:
        return {"name": source.name, "refused": str(error)}
    facts = describe(loaded)
    if walkable:
        try:
            facts |= describe_navmesh(loaded.navmesh or cached_navmesh(loaded, NavMeshSettings(), cache))
        except ValueError as error:
            facts["walkable"] = str(error)
    return facts


def describe(scene: Scene) -> dict[str, Any]:
    """The facts of a scene as plain values; lengths in metres."""
    low, high = scene.bounds.tolist()
    pixels = [picture.shape[0] * picture.shape[1] for picture in scene.textures]
    return {
        "name": scene.name,
        "triangles": len(scene.triangles),
        "vertices": len(scene.vertices),
        "objects": len(scene.objects),
        "materials": len(scene.materials),
        "textures": len(scene.textures),
        "texture_pixels": sum(pixels),
        "bytes": scene.nbytes,
        "size": [end - start for start, end in zip(low, high, strict=True)],
        "bounds": [low, high],
        **{key: scene.metadata[key] for key in _GUESSES if key in scene.metadata},
        "brings_navmesh": scene.navmesh is not None,
        "warnings": list(scene.warnings),
    }


def describe_navmesh(navmesh: NavMesh) -> dict[str, Any]:
    """Where one can walk: square metres in all, and of the islands, the largest first."""
    islands = sorted((island.area for island in navmesh.islands), reverse=True)
    return {"walkable_area": navmesh.navigable_area, "islands": islands}


def _table(facts: dict[str, Any]) -> Table:
    table = Table(show_header=False, title=escape(facts["name"]), title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    megabytes = facts["bytes"] / 1e6
    counts = {name: facts[name] for name in ("triangles", "vertices", "objects", "materials")}
    for name, count in counts.items():
        table.add_row(name, f"{count:,}")
    table.add_row("textures", f"{facts['textures']}, {facts['texture_pixels'] / 1e6:.1f} million pixels")
    table.add_row("memory", f"{megabytes:,.1f} MB")
    table.add_row("size", " x ".join(f"{length:.2f}" for length in facts["size"]) + " m (x, y up, z)")
    for name, corner in zip(("from", "to"), facts["bounds"], strict=True):
        table.add_row(name, ", ".join(f"{value:.2f}" for value in corner))
    for name in _GUESSES:
        if name in facts:
            table.add_row(name, escape(str(facts[name])))
    if "walkable" in facts:
        table.add_row("walkable", escape(facts["walkable"]))
    if "islands" in facts:
        islands = facts["islands"]
        shown = ", ".join(f"{area:.1f}" for area in islands[:5]) + (", ..." if len(islands) > 5 else "")
        origin = "the navmesh that came with it" if facts["brings_navmesh"] else "built for Habitat's agent"
        table.add_row("walkable", f"{facts['walkable_area']:.1f} m2 ({origin})")
        table.add_row("islands", f"{len(islands)}: {shown} m2")
    for sentence in facts["warnings"]:
        table.add_row("note", escape(sentence))
    return table
