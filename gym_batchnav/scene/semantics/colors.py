"""The colours of annotated GLB files: those of texels, or of vertices, as numbers 0xRRGGBB."""

from __future__ import annotations

import numpy as np

from gym_batchnav.scene.builder import SceneBuilder
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.gltf import read_gltf
from gym_batchnav.scene.scene import Scene


def read_painted_glb(files: SceneFiles) -> tuple[np.ndarray, Scene]:
    """Read a GLB whose colours mean something: its vertices [V, 3] float64 in the file's frame, and a scene of it.

    Raises:
        ValueError: If the file is damaged, uses an unsupported feature or has no triangles.
    """
    builder = SceneBuilder(files, filtered=False)  # averages of two objects' colours would mean a third
    read_gltf(files, builder)
    vertices, triangles = builder.vertices_and_triangles()
    return vertices, builder.build(files.path.stem, vertices.astype(np.float32), triangles, None, {})


def colors_at(scene: Scene, owner: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the unlit colour [P] int64 of points on a scene's triangles: the nearest texel, or the nearest vertex.

    Args:
        scene: The scene.
        owner: [P] int, the triangle of every point.
        weights: [P, 3], the weights of its corners.
    """
    corners = scene.triangles[owner]
    material = scene.triangle_material[owner]
    nearest = corners[np.arange(len(corners)), weights.argmax(axis=1)]
    rgb = np.rint(255 * scene.materials.base_color[material, :3]).astype(np.int64)
    if scene.colors is not None:
        rgb = rgb * scene.colors[nearest, :3] // 255
    texture = scene.materials.texture[material]
    for number in np.unique(texture[texture >= 0]).tolist():
        rows = np.flatnonzero(texture == number)
        assert scene.uvs is not None  # materials with a texture have them
        u, v = np.einsum("pk,pkx->xp", weights[rows], scene.uvs[corners[rows]]) % 1.0
        picture = scene.textures[number]
        height, width = picture.shape[:2]
        column = np.minimum((u * width).astype(np.int64), width - 1)
        row = np.minimum((v * height).astype(np.int64), height - 1)
        rgb[rows] = picture[row, column, :3]
    return (rgb[:, 0] << 16) | (rgb[:, 1] << 8) | rgb[:, 2]
