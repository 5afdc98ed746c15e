"""``gym-batchnav scene info``: print counts, guesses and the walkable area of scenes."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.flags import listed
from gym_batchnav.cli.scene.choice import FrameScale, FrameUp, MaxTriangles, TextureSize, load_options, with_frame

if TYPE_CHECKING:
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import SceneSource

_LARGE = 2**26  # bytes of a file whose memory is estimated before it is read


def info(
    scenes: Annotated[list[str], typer.Argument(help="Files, folders, patterns or names, as for scenes=.")],
    walkable: Annotated[bool, typer.Option(help="Also build the navmesh, which may take a while.")] = True,
    up: FrameUp = None,
    scale: FrameScale = None,
    texture_size: TextureSize = "auto",
    max_triangles: MaxTriangles = None,
    resident: Annotated[int, typer.Option(help="Number of resident scenes whose memory is reported.", min=1)] = 1,
    categories: Annotated[
        str | None, typer.Option(help="Warn about those of these categories that a scene lacks: chair,bed,tv.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per scene.")] = False,
) -> None:
    """Describe scenes: counts, size, textures, memory, guessed units, parts left out, and the walkable area.

    "resident" is the memory that --resident such scenes take in a run. For a large glTF file it is estimated and told
    before anything is decoded.

    Categories are recognised under their other names too: a couch is a sofa.

    The exit status is 1 if a scene cannot be read. One without a walkable area, such as a single piece of furniture, is
    described all the same.

    Example: gym-batchnav scene info home.glb "~/scenes/*.obj" procedural:7
    """
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.system.progress import late_progress

    cache = DiskCache()
    options = load_options(texture_size, max_triangles)
    console = Console(soft_wrap=not sys.stdout.isatty())
    refused = 0
    names = listed(categories or "")
    sources = [with_frame(source, cache, up, scale) for source in scene_sources(scenes, cache, options)]
    with late_progress("Reading scenes", len(sources)) as done:
        for source in sources:
            if not as_json:
                _tell_cost(source, texture_size, resident)
            facts = _facts(source, cache, walkable, names)
            refused += "refused" in facts
            if as_json:
                print(json.dumps(facts))
            elif "refused" in facts:
                reason = escape(facts["refused"])
                console.print(f"[red]{escape(source.name)}[/] cannot be used: {reason}", highlight=False)
            else:
                console.print(_table(facts, resident))
                if facts.get("missing_categories"):
                    missing = ", ".join(facts["missing_categories"])
                    console.print(f"[yellow]no object is called[/] {escape(missing)}", highlight=False)
            done()
    if refused:
        raise typer.Exit(1)


def _tell_cost(source: SceneSource, texture_size: str, num_resident: int) -> None:
    """Print on standard error what a large glTF file will cost, before it is read; nothing for other scenes."""
    from gym_batchnav.render.cost import resident_cost
    from gym_batchnav.scene.formats.gltf_counts import count_gltf
    from gym_batchnav.viz.facts import cost_in_words

    path = Path(str((source.recipe or {}).get("path", "")))
    if path.suffix.lower() not in (".glb", ".gltf") or not path.is_file() or path.stat().st_size < _LARGE:
        return
    try:
        counts = count_gltf(path, load_options(texture_size, None)["texture_size"])
    except (ValueError, LookupError, TypeError, OSError):
        return  # loading says what is wrong
    cost = resident_cost(counts.num_triangles, counts.num_vertices, counts.num_textures, counts.texture_bytes)
    content = f"{counts.num_triangles:,} triangles, {counts.num_textures:,} textures of up to {counts.texture_size:,}"
    print(f"{source.name}: {content} pixels; resident {cost_in_words(cost, num_resident)}", file=sys.stderr, flush=True)


def _facts(source: SceneSource, cache: DiskCache, walkable: bool, categories: Sequence[str]) -> dict[str, Any]:
    """Return the facts of a scene; for one that cannot be loaded, its name and the reason as ``refused``."""
    from gym_batchnav.library.prepare import cached_navmesh
    from gym_batchnav.library.warmup import warm_up_building
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.scene.categories import number_of
    from gym_batchnav.viz.facts import describe_navmesh, describe_scene

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table shows the loader's warnings
            loaded = source.load()
    except ValueError as error:
        return {"name": source.name, "refused": str(error)}
    facts = describe_scene(loaded)
    if categories:
        known = dict.fromkeys(facts["categories"], 0)
        facts["missing_categories"] = [name for name in categories if number_of(name.lower(), known) is None]
    if walkable:
        if loaded.navmesh is None:
            warm_up_building()
        try:
            facts |= describe_navmesh(loaded.navmesh or cached_navmesh(loaded, NavMeshSettings(), cache))
        except ValueError as error:
            facts["walkable"] = str(error)
    return facts


def _table(facts: dict[str, Any], num_resident: int) -> Table:
    """Return the facts as a table."""
    from gym_batchnav.viz.facts import scene_in_words

    table = Table(show_header=False, title=escape(facts["name"]), title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, words in scene_in_words(facts, num_resident=num_resident).items():
        table.add_row(name, escape(words))
    return table
