"""``gym-batchnav scene view``: a scene from above and from eye level in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console

from gym_batchnav.cli.scene.choice import FrameScale, FrameUp, Only, chosen_source, how_to_keep

if TYPE_CHECKING:
    from gym_batchnav.geometry import Camera
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.render.api import Renderer
    from gym_batchnav.scene.scene import Scene

NUM_PICTURES = 8
_COLUMNS = 4


def view(
    scene: Annotated[str, typer.Argument(help="A scene as scenes= takes it: home.glb, apartment_0, procedural:7.")],
    out: Annotated[Path | None, typer.Option(help="The PNG to write; SCENE_view.png here by default.")] = None,
    size: Annotated[int, typer.Option(help="Pixels along a side of each eye-level picture.", min=32, max=1024)] = 256,
    seed: Annotated[int, typer.Option(help="Of the places that are tried.", min=0)] = 0,
    only: Only = None,
    up: FrameUp = None,
    scale: FrameScale = None,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
) -> None:
    """Draw a scene from above, one map a storey, and what one sees from eight places in it, as one PNG.

    The green line on a map goes round where Habitat's agent can walk; numbers show from where the pictures are taken.
    Lines along edges and light from the side are there for the eye: agents see none of them. A scene in which nobody
    can walk is drawn from outside instead.

    Example: gym-batchnav scene view home.glb --out home.png
    """
    from gym_batchnav import viz
    from gym_batchnav.geometry import Camera
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.preparation.navigation import cached_navmesh
    from gym_batchnav.render.api import make_renderer
    from gym_batchnav.system.progress import late_progress

    console, cache = Console(stderr=True), DiskCache()
    source = chosen_source(scene, only, cache, up, scale)
    out = out or Path(f"{source.name.replace('/', '_')}_view.png")
    viz.check_picture_path(out)
    camera = Camera(width=size, height=size)
    with late_progress(f"Reading {source.name}, finding where one can walk, drawing", 3) as done:
        loaded = source.load()
        done()
        try:
            navmesh = loaded.navmesh or cached_navmesh(loaded, NavMeshSettings(), cache)
        except ValueError as error:
            console.print(f"{error}: drawn from outside", soft_wrap=True, highlight=False, markup=False)
            navmesh = None
        done()
        drawer = make_renderer(renderer, SceneLibrary.from_scenes([loaded]))
        if navmesh is None or not navmesh.num_polygons:
            sheet = outside(drawer, loaded, camera)
        else:
            sheet = inside(drawer, loaded, navmesh, camera, np.random.default_rng(seed))
        drawer.close()
    viz.save_picture(sheet, out)
    if (up, scale) != (None, None):
        console.print(how_to_keep(loaded), soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"{out}  {len(loaded.triangles):,} triangles, drawn by {drawer.name}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def inside(renderer: Renderer, scene: Scene, navmesh: NavMesh, camera: Camera, rng: np.random.Generator) -> np.ndarray:
    """Maps of the storeys, and numbered pictures from eye level beside them, as one picture [H, W, 3] uint8."""
    from gym_batchnav import viz
    from gym_batchnav.cli.scene.viewpoints import most_telling
    from gym_batchnav.geometry import view_matrices

    position, heading = most_telling(renderer, navmesh, camera, NUM_PICTURES, rng)
    views = view_matrices(position, heading, camera.eye_height)
    pictures = viz.drawn(renderer, camera, np.zeros(NUM_PICTURES, int), views)
    tiles = [viz.numbered(picture, 1 + index) for index, picture in enumerate(pictures)]
    maps = _maps(renderer, scene, navmesh, position, heading, 2 * camera.width)
    return viz.side_by_side([*maps, viz.mosaic(np.stack(tiles), columns=_COLUMNS)])


def _maps(
    renderer: Renderer, scene: Scene, navmesh: NavMesh, position: np.ndarray, heading: np.ndarray, size: int
) -> list[np.ndarray]:
    """A map for each storey, or one of a whole landscape, with what can be walked and the viewpoints on it."""
    from gym_batchnav import viz

    floors = viz.storeys(navmesh)
    maps = []
    for floor in floors or [0.0]:
        above = viz.draw_outline(viz.storey_map(renderer, scene, 0, navmesh, size, floor), navmesh)
        here = np.flatnonzero(above.shows(position))
        picture = viz.draw_viewpoints(above, position[here], heading[here], (1 + here).tolist())
        maps.append(viz.titled(picture, f"floor at {floor:.1f} m") if len(floors) > 1 else picture)
    return maps


def outside(renderer: Renderer, scene: Scene, camera: Camera) -> np.ndarray:
    """Pictures from all around as one picture [H, W, 3] uint8."""
    from gym_batchnav import viz
    from gym_batchnav.cli.scene.viewpoints import around

    pictures = viz.drawn(renderer, camera, np.zeros(NUM_PICTURES, int), around(scene, NUM_PICTURES))
    return viz.mosaic(pictures, columns=_COLUMNS)
