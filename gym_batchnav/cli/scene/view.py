"""``gym-batchnav scene view``: a scene from above and from eye level in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console

if TYPE_CHECKING:
    from gym_batchnav.geometry import Camera
    from gym_batchnav.navmesh.mesh import NavMesh
    from gym_batchnav.render.api import Renderer
    from gym_batchnav.scene.mesh import Scene

NUM_PICTURES = 8
_HEADINGS = 8  # tried at each place; the one with the widest view is taken
_COLUMNS = 4


def view(
    scene: Annotated[str, typer.Argument(help="A scene file, or a name such as apartment_0 or procedural:7.")],
    out: Annotated[Path | None, typer.Option(help="The PNG to write; SCENE_view.png here by default.")] = None,
    size: Annotated[int, typer.Option(help="Pixels along a side of each eye-level picture.", min=32, max=1024)] = 256,
    seed: Annotated[int, typer.Option(help="Of the places.", min=0)] = 0,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
) -> None:
    """Draw a scene from above, and what one sees at eight random places in it, as one PNG.

    A scene in which nobody can walk is drawn from outside instead.

    Example: gym-batchnav scene view home.glb --out home.png
    """
    from gym_batchnav import viz
    from gym_batchnav.geometry import Camera
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.render.api import make_renderer
    from gym_batchnav.scene.cache import DiskCache
    from gym_batchnav.scene.library import SceneLibrary
    from gym_batchnav.scene.sources import scene_sources
    from gym_batchnav.task.prepare import cached_navmesh

    console, cache = Console(stderr=True), DiskCache()
    sources = scene_sources(scene, cache)
    if len(sources) > 1:
        raise ValueError(f"{scene!r} means {len(sources)} scenes: give one, such as {sources[0].name!r}")
    loaded = sources[0].load()
    camera = Camera(width=size, height=size)
    drawer = make_renderer(renderer, SceneLibrary.from_scenes([loaded]))
    try:
        navmesh = loaded.navmesh or cached_navmesh(loaded, NavMeshSettings(), cache)
    except ValueError as error:
        console.print(f"{error}: drawn from outside", highlight=False, markup=False)
        sheet = viz.mosaic(from_outside(drawer, loaded, camera), columns=_COLUMNS)
    else:
        pictures, floor = inside(drawer, navmesh, camera, np.random.default_rng(seed))
        above = viz.scene_map(drawer, loaded, 0, size=2 * size, floor=floor)
        sheet = viz.side_by_side([above.picture, viz.mosaic(pictures, columns=_COLUMNS)])
    drawer.close()
    out = out or Path(f"{loaded.name.replace('/', '_')}_view.png")
    viz.save_picture(sheet, out)
    console.print(f"{out}  {len(loaded.triangles):,} triangles, drawn by {drawer.name}", highlight=False)


def inside(renderer: Renderer, navmesh: NavMesh, camera: Camera, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Pictures [8, H, W, 3] uint8 at random places of the largest island, and the height of most of them, metres."""
    from gym_batchnav.geometry import view_matrices

    largest = int(np.argmax([island.area for island in navmesh.islands]))
    places = navmesh.random_points(NUM_PICTURES, rng, largest)
    heading = rng.uniform(-np.pi, np.pi, (NUM_PICTURES, 1)) + np.arange(_HEADINGS) * 2 * np.pi / _HEADINGS
    views = view_matrices(np.repeat(places, _HEADINGS, axis=0), heading.ravel(), camera.eye_height)
    target = renderer.target(camera, ("rgb", "depth"), num_views=_HEADINGS, buffers=1)
    chosen = []
    for row in range(NUM_PICTURES):
        images = target.render(np.zeros(_HEADINGS, int), views[row * _HEADINGS : (row + 1) * _HEADINGS])
        widest = images["depth"].mean(axis=(1, 2, 3)).argmax()
        chosen.append(images["rgb"][widest].copy())
    target.close()
    return np.stack(chosen), float(np.median(places[:, 1]))


def from_outside(renderer: Renderer, scene: Scene, camera: Camera) -> np.ndarray:
    """Pictures [8, H, W, 3] uint8 from all around and a little above."""
    from gym_batchnav.geometry import look_at

    low, high = scene.bounds.astype(np.float64)
    middle, reach = (low + high) / 2, max(float(np.linalg.norm(high - low)), 1e-3)
    angle = np.arange(NUM_PICTURES) * 2 * np.pi / NUM_PICTURES
    around = np.stack([np.sin(angle), np.full(NUM_PICTURES, 0.5), np.cos(angle)], axis=1)
    views = np.stack([look_at(middle + 0.8 * reach * step, middle) for step in around])
    target = renderer.target(camera, ("rgb",), num_views=NUM_PICTURES, buffers=1)
    pictures = target.render(np.zeros(NUM_PICTURES, int), views)["rgb"].copy()
    target.close()
    return pictures
