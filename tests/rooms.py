"""Hand-made scenes whose geometry is known exactly."""

from __future__ import annotations

import numpy as np

from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.scene import Materials, Scene

# Corners of the unit cube and its faces, counter-clockwise from outside.
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])


def box(low: tuple[float, float, float], high: tuple[float, float, float], inward: bool = False) -> np.ndarray:
    """Triangles [12, 3, 3] of a box, fronts outward, or inward for a room."""
    corners = np.array(low) + CUBE * (np.array(high) - np.array(low))
    quads = corners[FACES[:, ::-1] if inward else FACES]
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.float32)


def named(*names: str) -> tuple[SceneObject, ...]:
    """Objects of these names, with the categories that the names suggest."""
    return tuple(SceneObject.named(name) for name in names)


def names_of(scene: Scene) -> tuple[str, ...]:
    """The names of a scene's objects."""
    return tuple(one.name for one in scene.objects)


def facts(scene: Scene, key: str) -> list:
    """A list in the metadata of a generated scene."""
    found = scene.metadata[key]
    assert isinstance(found, list)
    return found


def plain_materials(count: int, seed: int = 0) -> Materials:
    """Untextured opaque materials of different colours."""
    colors = np.random.default_rng(seed).uniform(0.2, 0.9, (count, 4)).astype(np.float32)
    colors[:, 3] = 1
    return Materials(
        base_color=colors,
        texture=np.full(count, -1, np.int32),
        alpha_mode=np.zeros(count, np.uint8),
        alpha_cutoff=np.full(count, 0.5, np.float32),
        double_sided=np.ones(count, bool),
        wrap=np.zeros((count, 2), np.uint8),
        filter=np.zeros(count, np.uint8),
    )


def scene_of(name: str, *objects: np.ndarray) -> Scene:
    """A scene of triangle soups [T, 3, 3], one object and one material each."""
    soup = np.concatenate(objects)
    owner = np.repeat(np.arange(len(objects), dtype=np.int32), [len(triangles) for triangles in objects])
    return Scene(
        name=name,
        vertices=soup.reshape(-1, 3),
        triangles=np.arange(3 * len(soup), dtype=np.int32).reshape(-1, 3),
        triangle_material=owner,
        triangle_object=owner + 1,
        materials=plain_materials(len(objects)),
        objects=named(*(f"object_{index}" for index in range(len(objects)))),
    )


def box_room(name: str = "room", width: float = 8.0, depth: float = 6.0, height: float = 2.6) -> Scene:
    """A room around the origin with a wall that leaves a way round, and a low box."""
    room = box((-width / 2, 0, -depth / 2), (width / 2, height, depth / 2), inward=True)
    wall = box((-0.1, 0, -depth / 2), (0.1, height, depth / 2 - 1.5))
    crate = box((1.5, 0, -1.0), (2.5, 0.7, 0.0))
    return scene_of(name, room, wall, crate)
