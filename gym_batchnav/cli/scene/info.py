"""``gym-batchnav scene info``: print counts, guesses and the walkable area of scenes, and draw them."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.scene.choice import AgentSize, FrameScale, FrameUp, agent_settings, stage_config_hint, with_frame

if TYPE_CHECKING:
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import SceneSource
    from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
    from gym_batchnav.scene.scene import Scene

_LARGE = 2**26  # bytes of a file whose memory is estimated before it is read
_VIEW = 256  # pixels per side of a view
_MAP = 1000  # pixels along the map of a navmesh


def info(
    scenes: Annotated[
        list[str], typer.Argument(help="Files, folders, patterns or names, as for scenes=; also .navmesh files.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures and navmeshes; created if missing (default: none).")
    ] = None,
    agent: AgentSize = None,
    up: FrameUp = None,
    scale: FrameScale = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per scene.")] = False,
) -> None:
    """Describe scenes: counts, size, textures, memory, guessed units, parts left out, and the walkable area.

    With --out, each scene is drawn to NAME_view.png: a map of each storey, with the walkable area in green, and eight
    numbered views from inside it. The figure of a person in one of the views is 1.7 m tall; if it looks too large or
    too small, correct the scene with --scale. A scene without a walkable area is drawn from outside. The navmesh is
    drawn to NAME_navmesh.png and written to NAME.navmesh, which Habitat and environments read if it lies next to the
    scene's file.

    "resident" is the memory that the scene takes in a run. For a large glTF file it is estimated and printed before
    anything is decoded.

    The exit status is 1 if a scene cannot be read. One without a walkable area, such as a single piece of furniture, is
    described all the same.

    Example: gym-batchnav scene info home.glb "~/scenes/*.obj" procedural:7 --out pictures
    """
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.system.progress import late_progress
    from gym_batchnav.system.storage import make_folder

    cache = DiskCache()
    settings = agent_settings(agent)
    console = Console(soft_wrap=not sys.stdout.isatty())
    refused = 0
    files = [Path(os.path.expanduser(one)) for one in scenes if one.lower().endswith(".navmesh")]
    specs = [one for one in scenes if not one.lower().endswith(".navmesh")]
    found = scene_sources(specs, cache) if specs else []
    sources = [with_frame(source, cache, up, scale) for source in found]
    if out is not None:
        make_folder(out)
    for file in files:
        refused += not _tell_navmesh(file, out, as_json, console)
    with late_progress("Reading scenes", len(sources)) as done:
        for source in sources:
            if not as_json:
                _tell_cost(source)
            scene, navmesh, facts = _read(source, cache, settings)
            refused += "refused" in facts
            if scene is not None and out is not None:
                facts["files"] = [str(path) for path in _draw(scene, navmesh, out)]
            if scene is not None and (up, scale) != (None, None):
                facts["keep"] = stage_config_hint(scene)
            _print(facts, as_json, console)
            done()
    if refused:
        raise typer.Exit(1)


def _tell_cost(source: SceneSource) -> None:
    """Print on standard error what a large glTF file will cost, before it is read; nothing for other scenes."""
    from gym_batchnav.render.cost import resident_cost
    from gym_batchnav.scene.formats.gltf_document import count_gltf
    from gym_batchnav.viz.facts import cost_in_words

    path = Path(str((source.recipe or {}).get("path", "")))
    if path.suffix.lower() not in (".glb", ".gltf") or not path.is_file() or path.stat().st_size < _LARGE:
        return
    try:
        counts = count_gltf(path, "auto")
    except (ValueError, LookupError, TypeError, OSError):
        return  # loading says what is wrong
    cost = resident_cost(counts.num_triangles, counts.num_vertices, counts.num_textures, counts.texture_bytes)
    content = f"{counts.num_triangles:,} triangles, {counts.num_textures:,} textures of up to {counts.texture_size:,}"
    print(f"{source.name}: {content} pixels; resident {cost_in_words(cost)}", file=sys.stderr, flush=True)


def _tell_navmesh(file: Path, out: Path | None, as_json: bool, console: Console) -> bool:
    """Print the area and islands of a navmesh file, and draw its map if there is a folder; return whether it is one."""
    from gym_batchnav import viz
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.viz.facts import describe_navmesh, islands_in_words

    try:
        navmesh = NavMesh.load(file)
    except (ValueError, OSError) as error:
        _print({"name": file.name, "refused": str(error)}, as_json, console)
        return False
    facts = {"name": file.name, **describe_navmesh(navmesh)}
    if out is not None:
        path = out / f"{file.stem}_navmesh.png"
        viz.save_picture(viz.navmesh_overview(navmesh, _MAP), path)
        facts["files"] = [str(path)]
    if as_json:
        print(json.dumps(facts))
        return True
    area = f"{facts['walkable_area']:,.1f} m2"
    console.print(f"{file.name}: walkable {area}; islands {islands_in_words(facts['islands'])}", markup=False)
    console.print(*facts.get("files", ()), markup=False)
    return True


def _read(
    source: SceneSource, cache: DiskCache, settings: NavMeshSettings | None
) -> tuple[Scene | None, NavMesh | None, dict[str, Any]]:
    """Return a scene, its navmesh and its facts; for one that cannot be loaded, the reason as ``refused``."""
    from gym_batchnav.library.prepare import cached_navmesh
    from gym_batchnav.library.warmup import building_workloads
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.system.compilation import compile_ahead
    from gym_batchnav.viz.facts import cut_off_in_words, describe_islands, describe_navmesh, describe_scene

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table shows the loader's warnings
            loaded = source.load()
    except ValueError as error:
        return None, None, {"name": source.name, "refused": str(error)}
    facts = describe_scene(loaded)
    navmesh = loaded.navmesh if settings is None else None
    if navmesh is None:
        compile_ahead(building_workloads())
    try:
        navmesh = navmesh or cached_navmesh(loaded, settings or NavMeshSettings(), cache)
        facts |= describe_navmesh(navmesh) | describe_islands(loaded, navmesh)
        facts["warnings"] += cut_off_in_words(loaded, navmesh)
    except ValueError as error:
        facts["walkable"] = str(error)
    return loaded, navmesh, facts


def _draw(scene: Scene, navmesh: NavMesh | None, folder: Path) -> list[Path]:
    """Draw a scene and its navmesh, write the navmesh, and return the files."""
    import numpy as np

    from gym_batchnav import viz
    from gym_batchnav.geometry import Camera
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.library.warmup import building_workloads
    from gym_batchnav.render.api import make_renderer
    from gym_batchnav.system.compilation import compile_ahead

    compile_ahead(building_workloads(measures=True, draws_with="auto"))
    name = scene.name.replace("/", "_")
    files = [folder / f"{name}_view.png"]
    drawer = make_renderer("auto", SceneLibrary.from_scenes([scene]))
    try:
        sheet = viz.scene_overview(drawer, scene, navmesh, Camera(_VIEW, _VIEW), np.random.default_rng(0))
    finally:
        drawer.close()
    viz.save_picture(sheet, files[0])
    if navmesh is not None:
        files += [folder / f"{name}_navmesh.png", folder / f"{name}.navmesh"]
        viz.save_picture(viz.navmesh_overview(navmesh, _MAP), files[1])
        navmesh.save(files[2])
    return files


def _print(facts: dict[str, Any], as_json: bool, console: Console) -> None:
    if as_json:
        print(json.dumps(facts))
        return
    if "refused" in facts:
        reason = escape(facts["refused"])
        console.print(f"[red]{escape(facts['name'])}[/] cannot be used: {reason}", highlight=False)
        return
    console.print(_table(facts))
    for line in (*facts.get("files", ()), *([facts["keep"]] if "keep" in facts else [])):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(facts: dict[str, Any]) -> Table:
    from gym_batchnav.viz.facts import scene_in_words

    table = Table(show_header=False, title=escape(facts["name"]), title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, words in scene_in_words(facts).items():
        table.add_row(name, escape(words))
    return table
