"""The looks of moving bodies: robots, people, dogs and doors, made of simple solids and told apart by colours.

A shape stands on the origin and looks along -z, as an agent of heading 0 does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import trimesh

from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.color import linear_colors
from gym_batchnav.scene.scene import LINEAR, OPAQUE, REPEAT, Materials, Scene
from gym_batchnav.worlds.api import NUM_VARIANTS, SHAPES
from gym_batchnav.worlds.doors import DISC_RADIUS, LEAF

Color = tuple[float, float, float]  # sRGB, 0 to 1

_BRIGHT: tuple[Color, ...] = ((0.85, 0.2, 0.15), (0.15, 0.4, 0.85), (0.95, 0.7, 0.1), (0.2, 0.65, 0.3))
_FURS: tuple[Color, ...] = ((0.55, 0.38, 0.22), (0.2, 0.17, 0.15), (0.9, 0.87, 0.8), (0.75, 0.5, 0.25))
_SKINS: tuple[Color, ...] = ((0.95, 0.78, 0.66), (0.5, 0.33, 0.22), (0.85, 0.65, 0.5), (0.35, 0.23, 0.16))
_WOODS: tuple[Color, ...] = ((0.6, 0.42, 0.27), (0.9, 0.88, 0.84), (0.45, 0.3, 0.2), (0.75, 0.62, 0.45))
_DARK: Color = (0.18, 0.2, 0.26)
_GREY: Color = (0.7, 0.7, 0.72)

_Part = tuple[trimesh.Trimesh, Color]


@cache
def shapes() -> tuple[Scene, ...]:
    """Return the scenes of all shapes, in the order of ``worlds.api.shape_number``."""
    made = [(name, variant, _MAKERS[name](variant)) for name in SHAPES for variant in range(NUM_VARIANTS)]
    return tuple(_scene(f"{name}_{variant}", name, parts) for name, variant, parts in made)


def _robot(variant: int) -> list[_Part]:
    """Return a base on wheels with a mast and a camera, 1.3 m tall."""
    color = _BRIGHT[variant]
    return [
        (_upright(0.17, 0.05, 0.3), color),
        (_upright(0.12, 0.0, 0.05), _DARK),
        (_upright(0.03, 0.3, 1.15), _GREY),
        (_box((0.26, 0.12, 0.1), (0, 1.22, 0)), color),
        (_box((0.2, 0.06, 0.04), (0, 1.22, -0.07)), _DARK),
    ]


def _person(variant: int) -> list[_Part]:
    """Return a standing person, 1.7 m tall."""
    shirt = _BRIGHT[variant]
    skin = _SKINS[variant]
    return [
        *((_limb(0.08, (side * 0.09, 0.08, 0), (side * 0.09, 0.8, 0)), _DARK) for side in (-1, 1)),
        *((_box((0.1, 0.07, 0.24), (side * 0.09, 0.035, -0.05)), (0.1, 0.08, 0.08)) for side in (-1, 1)),
        (_limb(0.17, (0, 0.95, 0), (0, 1.27, 0)), shirt),
        *((_limb(0.055, (side * 0.22, 0.85, 0), (side * 0.2, 1.35, 0)), shirt) for side in (-1, 1)),
        *((_ball(0.06, (side * 0.22, 0.8, -0.01)), skin) for side in (-1, 1)),
        (_limb(0.05, (0, 1.38, 0), (0, 1.52, 0)), skin),
        (_ball(0.11, (0, 1.58, 0)), skin),
        (_ball(0.115, (0, 1.61, 0.025)), (0.15, 0.1, 0.07)),
        (_ball(0.025, (0, 1.57, -0.11)), skin),
    ]


def _dog(variant: int) -> list[_Part]:
    """Return a dog, 0.6 m tall."""
    fur = _FURS[variant]
    legs = [(_limb(0.035, (x, 0.04, z), (x, 0.35, z)), fur) for x in (-0.08, 0.08) for z in (-0.22, 0.22)]
    return [
        *legs,
        (_limb(0.12, (0, 0.4, -0.18), (0, 0.4, 0.18)), fur),
        (_limb(0.06, (0, 0.45, -0.26), (0, 0.54, -0.32)), fur),
        (_ball(0.09, (0, 0.55, -0.35)), fur),
        (_ball(0.045, (0, 0.53, -0.44)), _DARK),
        (_limb(0.02, (0, 0.46, 0.28), (0, 0.6, 0.36)), fur),
    ]


def _door(variant: int) -> list[_Part]:
    """Return a leaf with handles, 2 m tall; its origin is the first disc of a door."""
    wood = _WOODS[variant]
    middle = LEAF / 2 - DISC_RADIUS
    handle = middle + LEAF / 2 - 0.08
    return [
        (_box((0.04, 2.0, LEAF), (0, 1.0, -middle)), wood),
        *((_ball(0.035, (side * 0.05, 1.0, -handle)), _GREY) for side in (-1, 1)),
    ]


_MAKERS: dict[str, Callable[[int], list[_Part]]] = {"robot": _robot, "person": _person, "dog": _dog, "door": _door}


def _limb(radius: float, start: Sequence[float], end: Sequence[float]) -> trimesh.Trimesh:
    """Return a cylinder with round ends around the line between two points."""
    line = np.asarray(end, float) - start
    mesh = trimesh.creation.capsule(height=float(np.linalg.norm(line)), radius=radius, count=(8, 8))
    turn = trimesh.geometry.align_vectors((0, 0, 1), line)
    mesh.apply_transform(turn)
    mesh.apply_translation(start)
    return mesh


def _upright(radius: float, bottom: float, top: float) -> trimesh.Trimesh:
    """Return an upright cylinder between two heights."""
    mesh = trimesh.creation.cylinder(radius=radius, height=top - bottom, sections=16)
    mesh.apply_transform(trimesh.geometry.align_vectors((0, 0, 1), (0, 1, 0)))
    mesh.apply_translation((0, (bottom + top) / 2, 0))
    return mesh


def _box(size: Sequence[float], centre: Sequence[float]) -> trimesh.Trimesh:
    """Return an upright box."""
    mesh = trimesh.creation.box(extents=size)
    mesh.apply_translation(centre)
    return mesh


def _ball(radius: float, centre: Sequence[float]) -> trimesh.Trimesh:
    """Return a sphere."""
    mesh = trimesh.creation.icosphere(subdivisions=1, radius=radius)
    mesh.apply_translation(centre)
    return mesh


def _scene(name: str, category: str, parts: list[_Part]) -> Scene:
    """Return the scene of some coloured parts."""
    mesh: Any = trimesh.util.concatenate([part for part, _ in parts])
    color = np.concatenate([np.tile(rgb, (len(part.vertices), 1)) for part, rgb in parts])
    material = Materials(
        base_color=np.ones((1, 4), np.float32),
        texture=np.full(1, -1, np.int32),
        alpha_mode=np.full(1, OPAQUE, np.uint8),
        alpha_cutoff=np.full(1, 0.5, np.float32),
        double_sided=np.zeros(1, bool),
        wrap=np.full((1, 2), REPEAT, np.uint8),
        filter=np.full(1, LINEAR, np.uint8),
    )
    return Scene(
        name=name,
        vertices=np.asarray(mesh.vertices, np.float32),
        triangles=np.asarray(mesh.faces, np.int32),
        triangle_material=np.zeros(len(mesh.faces), np.int32),
        triangle_object=np.zeros(len(mesh.faces), np.int32),  # the renderer draws one id for the whole body
        materials=material,
        colors=linear_colors(color),
        objects=(SceneObject(name, category),),
    )
