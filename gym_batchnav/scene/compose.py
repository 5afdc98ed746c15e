"""One scene of several: placed copies of scenes joined into one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gym_batchnav.scene.builder import MAX_TRIANGLES
from gym_batchnav.scene.scene import Materials, Scene


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A scene somewhere in another."""

    scene: Scene
    matrix: np.ndarray  # [4, 4] float64, from the scene's frame to the world
    name: str | None = None  # the whole is one object of this name; None keeps the scene's objects


def compose(name: str, placed: Sequence[Placed]) -> Scene:
    """Join placed scenes; a scene that is placed several times brings its materials and textures once.

    Args:
        name: Of the result.
        placed: At least one.

    Returns:
        A Scene without navmesh and metadata; its warnings are those of its parts.

    Raises:
        ValueError: together they have more than ``MAX_TRIANGLES``.
    """
    if sum(len(one.scene.triangles) for one in placed) > MAX_TRIANGLES:
        raise ValueError(f"its parts have more than {MAX_TRIANGLES:,} triangles: place fewer objects")
    parts = list({id(one.scene): one.scene for one in placed}.values())
    materials, first_material = _joined_materials(parts)
    vertices, triangles, rows, numbers = [], [], [], []
    objects: list[str] = []
    num_vertices = 0
    for one in placed:
        part, linear = one.scene, one.matrix[:3, :3]
        vertices.append((part.vertices @ linear.T + one.matrix[:3, 3]).astype(np.float32))
        mirrored = np.linalg.det(linear) < 0
        triangles.append((part.triangles[:, ::-1] if mirrored else part.triangles) + np.int32(num_vertices))
        rows.append(part.triangle_material + np.int32(first_material[id(part)]))
        if one.name is None:
            numbers.append(np.where(part.triangle_object > 0, part.triangle_object + np.int32(len(objects)), 0))
            objects += part.objects
        else:
            objects.append(one.name)
            numbers.append(np.full(len(part.triangles), len(objects), np.int32))
        num_vertices += len(part.vertices)
    return Scene(
        name=name,
        vertices=np.concatenate(vertices),
        triangles=np.concatenate(triangles),
        triangle_material=np.concatenate(rows),
        triangle_object=np.concatenate(numbers).astype(np.int32),
        materials=materials,
        uvs=_joined(placed, "uvs", np.zeros(2, np.float32)),
        colors=_joined(placed, "colors", np.full(4, 255, np.uint8)),
        textures=tuple(picture for part in parts for picture in part.textures),
        objects=tuple(objects),
        warnings=tuple(f"{part.name}: {sentence}" for part in parts for sentence in part.warnings),
    )


def _joined_materials(parts: Sequence[Scene]) -> tuple[Materials, dict[int, int]]:
    """The materials of all parts, and where those of each begin, by the id of the part."""
    columns: dict[str, list[np.ndarray]] = {field.name: [] for field in fields(Materials)}
    first: dict[int, int] = {}
    num_materials = num_textures = 0
    for part in parts:
        first[id(part)] = num_materials
        for name, column in columns.items():
            values = getattr(part.materials, name)
            if name == "texture":
                values = np.where(values >= 0, values + np.int32(num_textures), values).astype(np.int32)
            column.append(values)
        num_materials += len(part.materials)
        num_textures += len(part.textures)
    return Materials(**{name: np.concatenate(column) for name, column in columns.items()}), first


def _joined(placed: Sequence[Placed], name: str, missing: np.ndarray) -> np.ndarray | None:
    """An attribute of all vertices, ``missing`` where a part has none; None where no part has it."""
    values = [getattr(one.scene, name) for one in placed]
    if all(array is None for array in values):
        return None
    filled = [
        np.tile(missing, (len(one.scene.vertices), 1)) if array is None else array
        for one, array in zip(placed, values, strict=True)
    ]
    return np.concatenate(filled)
