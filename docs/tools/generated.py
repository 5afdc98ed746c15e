"""Draw the picture of generated scenes in docs/scenes.md: python docs/tools/generated.py [FILE]."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from gym_batchnav import Camera, viz
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.prepare import cached_navmesh
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.render.api import make_renderer

IMAGE = Path(__file__).parents[1] / "images" / "generated.png"
SCENES = ("procedural:1?kind=office", "procedural:7?kind=shop", "procedural:5?kind=hall", "procedural:1?damage=0.6")
SIZE = 128  # pixels, of a view


def draw() -> np.ndarray:
    """Return a map and eight views of each scene, one above the other, [H, W, 3] uint8."""
    sheets = []
    for spec in SCENES:
        (source,) = scene_sources(spec)
        scene = source.load()
        drawer = make_renderer("embree", SceneLibrary.from_scenes([scene]))
        navmesh = cached_navmesh(scene, NavMeshSettings(), None)
        camera = Camera(width=SIZE, height=SIZE)
        sheets.append(viz.scene_overview(drawer, scene, navmesh, camera, np.random.default_rng(0)))
        drawer.close()
    width = max(sheet.shape[1] for sheet in sheets)
    rows = [np.pad(one, ((0, 6), (0, width - one.shape[1]), (0, 0)), constant_values=255) for one in sheets]
    return np.concatenate(rows)


if __name__ == "__main__":
    picture = Image.fromarray(draw()).quantize(64)
    picture.save(sys.argv[1] if sys.argv[1:] else IMAGE, optimize=True)
