"""``gym-batchnav scene view``: draw a scene from above and from eye level in one image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gym_batchnav.cli.scene.choice import (
    FrameScale,
    FrameUp,
    MaxTriangles,
    Only,
    TextureSize,
    chosen_source,
    load_options,
    stage_config_hint,
)
from gym_batchnav.system.wording import counted


def view(
    scene: Annotated[str, typer.Argument(help="A scene, as for scenes=: home.glb, apartment_0, procedural:7.")],
    out: Annotated[
        Path | None, typer.Option(help="PNG file to write; SCENE_view.png in this folder by default.")
    ] = None,
    size: Annotated[int, typer.Option(help="Side of each eye-level view in pixels.", min=32, max=1024)] = 256,
    seed: Annotated[int, typer.Option(help="Seed of the candidate viewpoints.", min=0)] = 0,
    only: Only = None,
    up: FrameUp = None,
    scale: FrameScale = None,
    texture_size: TextureSize = "auto",
    max_triangles: MaxTriangles = None,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
) -> None:
    """Draw a scene from above, one map per storey, and eight views from inside it, as one PNG.

    On the maps, a green line outlines the area where Habitat's agent can walk, and numbers mark the viewpoints. The
    human figure in one of the views is 1.7 m tall; if it looks too large or too small, correct the scene with --scale.
    Edge lines and side lighting make shapes easier to see and do not appear in observations. A scene without a walkable
    area is drawn from outside.

    Example: gym-batchnav scene view home.glb --out home.png
    """
    import numpy as np

    from gym_batchnav import viz
    from gym_batchnav.geometry import Camera
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.library.prepare import cached_navmesh
    from gym_batchnav.library.warmup import warm_up_building
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.render.api import make_renderer
    from gym_batchnav.system.progress import late_progress

    console = Console(stderr=True, soft_wrap=True)
    cache = DiskCache()
    source = chosen_source(scene, only, cache, up, scale, load_options(texture_size, max_triangles))
    out = out or Path(f"{source.name.replace('/', '_')}_view.png")
    viz.check_picture_path(out)
    camera = Camera(width=size, height=size)
    warm_up_building(measures=True, draws_with=renderer)
    with late_progress(f"Reading and drawing {source.name}", 3) as done:
        loaded = source.load()
        done()
        try:
            navmesh = loaded.navmesh or cached_navmesh(loaded, NavMeshSettings(), cache)
        except ValueError as error:
            console.print(f"{error}: drawn from outside", highlight=False, markup=False)
            navmesh = None
        done()
        drawer = make_renderer(renderer, SceneLibrary.from_scenes([loaded]))
        try:
            sheet = viz.scene_overview(drawer, loaded, navmesh, camera, np.random.default_rng(seed))
        finally:
            drawer.close()
    viz.save_picture(sheet, out)
    if (up, scale) != (None, None):
        console.print(stage_config_hint(loaded), highlight=False, markup=False)
    triangles = f"{counted(len(loaded.triangles), 'triangle')}, drawn by {drawer.name}"
    console.print(f"{out}  {triangles}", highlight=False, markup=False)
