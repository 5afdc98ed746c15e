"""Writers of annotations in the layouts of public scans."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gym_batchnav.scene.save import save_glb
from gym_batchnav.scene.scene import Materials, Scene


def palette(count: int) -> np.ndarray:
    """Different colours [count, 3] uint8, none of them black."""
    numbers = np.arange(1, count + 1) * 2654435 % (2**24 - 1) + 1
    colors = np.stack([numbers >> 16, numbers >> 8, numbers], axis=1).astype(np.uint8)
    assert len(np.unique(colors, axis=0)) == count
    return colors


def painted(scene: Scene, colors: np.ndarray) -> Scene:
    """The scene as a mesh whose vertices have the colours [O, 3] of their objects, without textures."""
    corners = scene.triangles.ravel()
    rgba = np.full((len(corners), 4), 255, np.uint8)
    rgba[:, :3] = np.repeat(colors[scene.triangle_object - 1], 3, axis=0)
    plain = Materials(
        np.ones((1, 4), np.float32), np.array([-1], np.int32), np.zeros(1, np.uint8), np.full(1, 0.5, np.float32),
        np.zeros(1, bool), np.zeros((1, 2), np.uint8), np.zeros(1, np.uint8),
    )  # fmt: skip
    return replace(
        scene,
        vertices=scene.vertices[corners],
        triangles=np.arange(len(corners), dtype=np.int32).reshape(-1, 3),
        triangle_material=np.zeros(len(scene.triangles), np.int32),
        materials=plain,
        uvs=None,
        colors=rgba,
        textures=(),
        metadata={},
        navmesh=None,
    )


def write_hm3d(scene: Scene, folder: Path, stem: str, categories: Sequence[str] | None = None) -> None:
    """Write ``STEM.semantic.glb`` and ``STEM.semantic.txt``."""
    categories = categories or [one.category for one in scene.objects]
    colors = palette(len(categories))
    save_glb(painted(scene, colors), folder / f"{stem}.semantic.glb")
    rows = [
        f'{number},{"".join(f"{value:02X}" for value in color)},"{category}",0'
        for number, (color, category) in enumerate(zip(colors.tolist(), categories, strict=True), 1)
    ]
    (folder / f"{stem}.semantic.txt").write_text("\n".join(["HM3D Semantic Annotations", *rows]) + "\n")


def object_ply(vertices: np.ndarray, faces: np.ndarray, numbers: np.ndarray) -> bytes:
    """A binary PLY file of faces [F, C] with their object numbers [F]."""
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(vertices)}\nproperty float x\nproperty float y\n"
        "property float z\nproperty uchar red\nproperty uchar green\nproperty uchar blue\n"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nproperty int object_id\nend_header\n"
    )
    points = np.zeros(len(vertices), [("place", "<f4", 3), ("color", "u1", 3)])
    points["place"] = vertices
    rows = np.zeros(len(faces), [("count", "u1"), ("corners", "<i4", faces.shape[1]), ("number", "<i4")])
    rows["count"] = faces.shape[1]
    rows["corners"] = faces
    rows["number"] = numbers
    return header.encode() + points.tobytes() + rows.tobytes()


def write_mp3d(scene: Scene, folder: Path, stem: str, turn: np.ndarray | None = None) -> None:
    """Write ``STEM_semantic.ply``, its vertices turned by a matrix [3, 3], and ``STEM.house``."""
    vertices = scene.vertices if turn is None else scene.vertices @ turn.T
    (folder / f"{stem}_semantic.ply").write_bytes(object_ply(vertices, scene.triangles, scene.triangle_object - 1))
    names = sorted({one.category for one in scene.objects})
    house = io.StringIO()
    house.write("ASCII 1.1\n")
    house.write(f"H {stem} label 0 0 0 0 0 {len(scene.objects)} {len(names)} 1 0 1 0 0 0 0 0 -1 -1 0 1 1 2 0 0 0 0 0\n")
    house.write("L 0 1 label 0 0 0 -1 -1 0 1 1 2 0 0 0 0 0\nR 0 0 0 0 k 0 0 0 -1 -1 0 1 1 2 2 0 0 0 0\n")
    for number, name in enumerate(names):
        house.write(f"C {number} {number + 1} {name}#raw {number + 1} {name.replace(' ', '#')} 0 0 0 0 0\n")
    for number, one in enumerate(scene.objects):
        category = names.index(one.category)
        house.write(f"O {number} 0 {category} 0 0 0 1 0 0 0 1 0 1 1 1 0 0 0 0 0 0 0 0\n")
        house.write(f"E {number} {number} {number} 1.0 0 0 0 0 0 0 1 1 1 0 0 0 0 0\n")
    (folder / f"{stem}.house").write_text(house.getvalue())
