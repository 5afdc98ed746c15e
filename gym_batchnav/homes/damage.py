"""Damage of generated scenes, as in scans and the levels of games: missing, uneven and floating parts.

Holes, bumps and floaters are drawn but do not change the navmesh; debris on the floor is drawn and changes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.simplify import with_source

_ROUNDS = 8  # each halves the longest edges
_CLEAN = 0.35  # share of scenes that are damaged as levels of games are: parts are missing, but surfaces are even
_SHELL = ("wall", "floor", "ceiling")  # categories of objects whose large triangles are refined
_TRIANGLES = 5_000  # of these objects after refinement, about, and as many round holes
_RIM = 0.12  # metres, longest edge round holes, at least
_SHAPE = 5.0  # longest edge, squared, in areas of a triangle
_FINEST = 0.45  # metres, longest edge after refinement, at least
_AREA_PER_HOLE = 14.0  # square metres of surface, at strength 1
_MOST_HOLES = 200
_HOLE = (0.08, 0.75)  # metres, radii at strength 1
_RAGGED = 0.35  # share of a hole's radius by which its rim is uneven
_SWELL = 0.025  # metres, bumps at strength 1
_GRAIN = 0.012
_WAVES = 6
_AREA_PER_FLOATER = 12.0  # square metres of floor, at strength 1
_AREA_PER_DEBRIS = 22.0
_OVERHEAD = 1.65  # metres, least height of floaters away from walls
_STREAM = zlib.crc32(b"damage")
_PATH = 0.55  # metres that stay free round a lump
_TRIES = 6
_RADII = (0.12, 0.32)  # metres


def damaged(scene: Scene, strength: float, seed: int) -> Scene:
    """Return a generated scene with damage.

    Ceilings, windows and outer faces are missing, in part or all of them; walls, floors and furniture have holes with
    ragged rims, so that rays miss; surfaces are bumpy; patches of the floor have no texture; scraps float under the
    ceiling and along walls; debris lies on the floor, where there is room to walk round it. About a third of all
    scenes only lack parts, as levels of games do.

    Args:
        scene: A scene of ``generate_apartment`` or ``generate_building``.
        strength: 0 to 1.
        seed: Equal seeds give equal damage.

    Returns:
        The damaged scene. Its ``unsimplified`` returns the scene with the debris alone, of which navmeshes are built.
    """
    rng = np.random.Generator(np.random.PCG64([seed, _STREAM]))
    whole = _with_debris(scene, strength, rng)
    surface = _surface(whole)
    objects = list(whole.objects)
    surface = surface.keep(~np.isin(surface.object, _missing(objects, strength, rng)))
    if rng.random() >= _CLEAN:
        holes = _draw_holes(surface, strength, rng)
        surface = _refined(surface, objects, holes)
        surface = _without_holes(surface, holes, rng)
        surface = _without_texture(surface, strength, rng)
        surface = surface._replace(vertices=_bumpy(surface.vertices, strength, rng))
        surface = surface.joined(_floaters(whole, surface, len(objects) + 1, strength, rng))
        objects.append(SceneObject("floaters", "clutter", solid=False))
    left, renumbered = np.unique(surface.object, return_inverse=True)
    objects = [objects[number - 1] for number in left.tolist()]
    surface = surface._replace(object=renumbered + 1)
    metadata = {key: value for key, value in whole.metadata.items() if key != "instances"}
    return _with_surface(replace(with_source(whole, lambda: whole), objects=tuple(objects)), surface, metadata)


def _surface(scene: Scene) -> Surface:
    assert scene.uvs is not None and scene.colors is not None
    return Surface(
        scene.vertices.astype(np.float64),
        scene.uvs.astype(np.float64),
        scene.colors.astype(np.float64),
        scene.triangles.astype(np.int64),
        scene.triangle_material.astype(np.int64),
        scene.triangle_object.astype(np.int64),
    )


def _with_surface(scene: Scene, surface: Surface, metadata: dict[str, object]) -> Scene:
    """Return a scene with other triangles; ``scene.metadata["whole_geometry"]`` is kept."""
    kept = {key: scene.metadata[key] for key in ("whole_geometry",) if key in scene.metadata}
    return replace(
        scene,
        vertices=surface.vertices.astype(np.float32),
        uvs=surface.uvs.astype(np.float32),
        colors=np.rint(np.clip(surface.colors, 0, 255)).astype(np.uint8),
        triangles=surface.triangles.astype(np.int32),
        triangle_material=surface.material.astype(np.int32),
        triangle_object=surface.object.astype(np.int32),
        metadata={**metadata, **kept},
    )


def _missing(objects: list[SceneObject], strength: float, rng: np.random.Generator) -> list[int]:
    """Return the ids of objects that are missing: ceilings, lamps, windows, the outer faces."""
    draws = rng.random(4)
    shares = {
        "ceiling": 1.0 if draws[0] < strength else 0.5 * strength,
        "window": 1.0 if draws[1] < 0.6 * strength else 0.2 * strength,
        "outside": float(draws[2] < 0.3 + 0.7 * strength),
        "door_frame": 0.5 * strength * (draws[3] < 0.5),
        "ceiling_lamp": 0.5 * strength,
    }
    rolls = rng.random(len(objects)).tolist()
    missing = []
    for number, (one, roll) in enumerate(zip(objects, rolls, strict=True), 1):
        kind = "ceiling" if one.category == "ceiling" else one.name.rstrip("0123456789").rstrip("_")
        if roll < shares.get(kind, 0.0):
            missing.append(number)
    return missing


def _refined(surface: Surface, objects: list[SceneObject], holes: Spots) -> Surface:
    """Return a surface whose walls, floors and ceilings are finer, above all where there will be holes."""
    shell = [number for number, one in enumerate(objects, 1) if one.category in _SHELL]
    large = np.isin(surface.object, shell)
    part = surface.keep(large)
    longest = max(_FINEST, float((_SHAPE * part.areas.sum() / _TRIANGLES) ** 0.5))
    return surface.keep(~large).joined(refine(part, longest, holes))


def _random_points(surface: Surface, count: int, rng: np.random.Generator) -> np.ndarray:
    ends = np.cumsum(surface.areas)
    chosen = np.searchsorted(ends, rng.random(count) * ends[-1])
    return surface.centers[np.minimum(chosen, len(ends) - 1)]


def _draw_holes(surface: Surface, strength: float, rng: np.random.Generator) -> Spots:
    """Draw the places and the sizes of holes; each is as fine as the number of holes allows."""
    count = min(_MOST_HOLES, int(rng.poisson(strength * surface.areas.sum() / _AREA_PER_HOLE)))
    radii = _HOLE[0] + (_HOLE[1] - _HOLE[0]) * strength * rng.random(count) ** 2
    fine = max(_RIM, float((_SHAPE * 3 * np.pi * (radii**2).sum() / _TRIANGLES) ** 0.5))
    return Spots(_random_points(surface, count, rng), radii, fine)


def _without_holes(surface: Surface, holes: Spots, rng: np.random.Generator) -> Surface:
    centers = surface.centers
    kept = np.ones(len(centers), bool)
    for point, radius in zip(holes.points, holes.radii, strict=True):
        near = np.flatnonzero((np.abs(centers - point) < radius / (1 - _RAGGED)).all(axis=1))
        kept[near[_distance(centers[near], point, rng) < radius]] = False
    return surface.keep(kept)


def _distance(points: np.ndarray, center: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return distances [T] of points [T, 3] from a centre, longer and shorter by direction."""
    away = points - center
    waves = rng.normal(0, 4.0, (2, 3))
    phase = rng.uniform(0, 2 * np.pi, 2)
    uneven = np.sin(away @ waves[0] * 3 + phase[0]) + np.sin(away @ waves[1] * 6 + phase[1])
    return np.linalg.norm(away, axis=1) * (1 + _RAGGED * uneven / 2)


def _without_texture(surface: Surface, strength: float, rng: np.random.Generator) -> Surface:
    """Return a surface with dark patches where the scan has no colours."""
    count = int(rng.poisson(strength * 6))
    colors = surface.colors.copy()
    for point in _random_points(surface, count, rng):
        near = _distance(surface.vertices, point, rng) < rng.uniform(0.2, 1.0)
        colors[near, :3] *= 0.06
    return surface._replace(colors=colors)


def _bumpy(vertices: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Return vertices [V, 3] that are moved by smooth waves and by noise; equal ones are moved alike."""
    moved = np.zeros_like(vertices)
    for _ in range(_WAVES):
        way = rng.normal(size=3)
        way *= 2 * np.pi / rng.uniform(0.5, 2.5) / np.linalg.norm(way)
        wave = np.sin(vertices @ way + rng.uniform(0, 2 * np.pi))
        moved += wave[:, None] * rng.normal(size=3) * _SWELL / _WAVES**0.5
    grid = np.rint(vertices * 500).astype(np.int64) @ np.array([73856093, 19349663, 83492791])
    for axis in range(3):
        mixed = (grid * 2654435761 + 97531 * axis) & 0xFFFFFF
        moved[:, axis] += _GRAIN * (2 * (((mixed ^ (mixed >> 11)) * 40503) & 0xFFFF) / 0xFFFF - 1)
    return vertices + strength * np.clip(moved, -0.08, 0.08)


def _floaters(scene: Scene, surface: Surface, number: int, strength: float, rng: np.random.Generator) -> Surface:
    """Return scraps in the air: under the ceiling, and along walls at any height."""
    rooms: Any = scene.metadata["rooms"]
    height = float(str(scene.metadata["ceiling"]))
    material = int(surface.material[0])
    found = []
    for room in rooms:
        x0, z0, x1, z1 = room["bounds"]
        for _ in range(int(rng.poisson(strength * (x1 - x0) * (z1 - z0) / _AREA_PER_FLOATER))):
            x, y, z, reach = rng.uniform((x0, 0.2, z0, 0.06), (x1, height, z1, 0.28)).tolist()
            low = room["floor"] + (y if min(x - x0, x1 - x, z - z0, z1 - z) < 0.12 else max(y, _OVERHEAD + reach))
            spots = np.array([x, min(low, room["floor"] + height - reach), z])
            count = int(rng.integers(4, 20))
            middles = spots + np.clip(rng.normal(0, 0.4, (count, 1, 3)), -0.8, 0.8) * reach
            found.append((middles + rng.uniform(-0.07, 0.07, (count, 3, 3))).reshape(-1, 3))
    vertices = np.concatenate(found) if found else np.zeros((0, 3))
    low, high = scene.bounds.astype(np.float64)
    count = len(vertices) // 3
    return Surface(
        np.clip(vertices, low, high),
        np.zeros((len(vertices), 2)),
        np.repeat(np.append(rng.uniform(30, 255, (count, 3)), np.full((count, 1), 255.0), axis=1), 3, axis=0),
        np.arange(len(vertices)).reshape(-1, 3),
        np.full(count, material),
        np.full(count, number),
    )


def _with_debris(scene: Scene, strength: float, rng: np.random.Generator) -> Scene:
    """Return a scene with lumps of debris on its floors, where there is room to walk round them."""
    surface = _surface(scene)
    objects = list(scene.objects)
    rooms: Any = scene.metadata["rooms"]
    storeys: Any = scene.metadata["free_space"]
    for storey, facts in enumerate(storeys):
        bounds = [room["bounds"] for room in rooms if room["storey"] == storey and room["type"] != "stairs"]
        area = sum((x1 - x0) * (z1 - z0) for x0, z0, x1, z1 in bounds)
        count = int(rng.poisson(strength * area / _AREA_PER_DEBRIS))
        for x, z, radius in debris_spots(bounds, facts["obstacles"], count, rng):
            objects.append(SceneObject.generated(f"debris_{len(objects) + 1}"))
            material = int(surface.material[int(rng.integers(len(surface.material)))])
            vertices, triangles = lump(radius, rng)
            surface = surface.joined(
                Surface(
                    vertices + np.array([x, facts["floor"], z]),
                    vertices[:, :2] + vertices[:, 2:],
                    np.append(rng.uniform(90, 230, 3), 255.0) * np.ones((len(vertices), 1)),
                    triangles,
                    np.full(len(triangles), material),
                    np.full(len(triangles), len(objects)),
                )
            )
    return _with_surface(replace(scene, objects=tuple(objects)), surface, dict(scene.metadata))


def debris_spots(
    rooms: Sequence[Sequence[float]],
    obstacles: Sequence[Sequence[Sequence[float]]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[float, float, float]]:
    """Return up to ``count`` places (x, z, radius) on a floor that paths can lead round, metres.

    Args:
        rooms: Rectangles [x0, z0, x1, z1] between walls.
        obstacles: Convex polygons [[x, z], ...].
        count: Number of places wanted.
        rng: Random stream.
    """
    if not rooms:
        return []
    starts = [np.array(polygon) for polygon in obstacles]
    a = np.concatenate([*starts, np.zeros((0, 2))])
    b = np.concatenate([*(np.roll(polygon, -1, axis=0) for polygon in starts), np.zeros((0, 2))])
    boxes = np.array([[*polygon.min(axis=0), *polygon.max(axis=0)] for polygon in starts]).reshape(-1, 4)
    bounds = np.array(rooms)
    areas = (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1])
    found: list[tuple[float, float, float]] = []
    for _ in range(count):
        radius = float(rng.uniform(*_RADII))
        margin = radius + _PATH
        for _ in range(_TRIES):
            x0, z0, x1, z1 = bounds[int(rng.choice(len(bounds), p=areas / areas.sum()))]
            x, z = rng.uniform((x0, z0), (x1, z1)).tolist()
            if min(x - x0, x1 - x, z - z0, z1 - z) < margin or _covered(boxes, x, z):
                continue
            if _nearest(a, b, np.array([x, z])) < margin:
                continue
            if all(np.hypot(x - u, z - w) > margin + other for u, w, other in found):
                found.append((x, z, radius))
                break
    return found


def _covered(boxes: np.ndarray, x: float, z: float) -> bool:
    """Return whether a point lies in one of the boxes [B, 4]."""
    return bool(((x > boxes[:, 0]) & (z > boxes[:, 1]) & (x < boxes[:, 2]) & (z < boxes[:, 3])).any())


def _nearest(a: np.ndarray, b: np.ndarray, point: np.ndarray) -> float:
    """Return the distance of a point [2] from the nearest of the segments from a [S, 2] to b [S, 2]."""
    if not len(a):
        return np.inf
    along = b - a
    share = np.clip(((point - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-12), 0, 1)
    return float(np.linalg.norm(a + share[:, None] * along - point, axis=1).min())


def lump(radius: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices [V, 3], metres, and triangles [T, 3] of an uneven lump that stands on the origin."""
    height = float(rng.uniform(0.25, 1.6)) * radius
    profile = [(radius, 0.0), (0.95 * radius, 0.5 * height), (0.5 * radius, 0.95 * height), (0.0, height)]
    shape = shapes.lathe(profile, 7)
    x, y, z = shape.vertices.T
    around = np.arctan2(z, x)
    uneven = 1 - 0.25 * (1 + np.sin(3 * around + rng.uniform(0, 6.28)) * np.cos(2 * around + rng.uniform(0, 6.28))) / 2
    vertices = np.stack([x * uneven, y * (0.8 + 0.2 * np.sin(9 * x + rng.uniform(0, 6.28))), z * uneven], axis=1)
    return vertices, shape.triangles


class Surface(NamedTuple):
    """The triangles of a scene with all that belongs to their corners."""

    vertices: np.ndarray  # [V, 3] float64, metres
    uvs: np.ndarray  # [V, 2] float64
    colors: np.ndarray  # [V, 4] float64, 0 to 255
    triangles: np.ndarray  # [T, 3] int64
    material: np.ndarray  # [T] int64
    object: np.ndarray  # [T] int64

    def keep(self, kept: np.ndarray) -> Surface:
        """Return the surface with only the triangles of a mask [T]."""
        return self._replace(
            triangles=self.triangles[kept], material=self.material[kept], object=self.object[kept]
        ).compact()

    def compact(self) -> Surface:
        """Return the surface without the vertices that no triangle uses."""
        used = np.zeros(len(self.vertices), bool)
        used[self.triangles] = True
        row = np.cumsum(used) - 1
        return self._replace(
            vertices=self.vertices[used],
            uvs=self.uvs[used],
            colors=self.colors[used],
            triangles=row[self.triangles],
        )

    def joined(self, other: Surface) -> Surface:
        """Return both surfaces as one."""
        moved = other._replace(triangles=other.triangles + len(self.vertices))
        return Surface(*(np.concatenate(pair) for pair in zip(self, moved, strict=True)))

    @property
    def centers(self) -> np.ndarray:
        """[T, 3], the centre of each triangle, metres."""
        return self.vertices[self.triangles].mean(axis=1)

    @property
    def areas(self) -> np.ndarray:
        """[T], square metres."""
        a, b, c = (self.vertices[self.triangles[:, k]] for k in range(3))
        return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


class Spots(NamedTuple):
    """Places where a mesh is to be fine."""

    points: np.ndarray  # [K, 3], metres
    radii: np.ndarray  # [K], metres
    longest: float  # metres, of edges there


def refine(surface: Surface, longest: float, spots: Spots | None = None) -> Surface:
    """Split edges longer than ``longest`` metres in the middle, and near spots shorter ones, for a few rounds.

    Whether an edge is split depends on its ends alone, so triangles that share an edge split it alike.
    """
    for _ in range(_ROUNDS):
        corners = surface.vertices[surface.triangles]
        following = np.roll(corners, -1, axis=1)
        lengths = np.linalg.norm(following - corners, axis=2)
        split = lengths > longest
        if spots is not None:
            split |= _near(spots, (corners + following) / 2, lengths)
        if not split.any():
            break
        surface = _split(surface, split)
    return surface


def _near(spots: Spots, middles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return which edges [T, 3] with middles [T, 3, 3] are too long for a spot that they may touch."""
    found = np.zeros(lengths.shape, bool)
    rows = np.nonzero(lengths > spots.longest)
    middle = middles[rows]
    reach = lengths[rows] / 2
    touched = np.zeros(len(reach), bool)
    for point, radius in zip(spots.points, spots.radii, strict=True):
        touched |= ((middle - point) ** 2).sum(axis=1) < (reach + radius) ** 2
    found[rows] = touched
    return found


def _split(surface: Surface, split: np.ndarray) -> Surface:
    """Split the marked edges [T, 3] (first to second corner, second to third, third to first) of triangles."""
    corners = surface.triangles
    ends = np.stack([corners, np.roll(corners, -1, axis=1)], axis=-1)[split]  # [E, 2]
    pairs, index = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    middle = np.full(corners.shape, -1, np.int64)
    middle[split] = len(surface.vertices) + index.ravel()
    first, second = pairs.T

    def halved(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, (values[first] + values[second]) / 2])

    parts = [(corners[~split.any(axis=1)], np.flatnonzero(~split.any(axis=1)))]
    count = split.sum(axis=1)
    for number in (1, 2, 3):
        rows = np.flatnonzero(count == number)
        # Turn the corners so that the pattern of marked edges is always the same.
        turn = np.argmax(split[rows], axis=1) if number == 1 else (np.argmin(split[rows], axis=1) + 1) % 3
        turn = np.zeros(len(rows), np.int64) if number == 3 else turn
        order = (turn[:, None] + np.arange(3)) % 3
        a, b, c = np.take_along_axis(corners[rows], order, axis=1).T
        ab, bc, ca = np.take_along_axis(middle[rows], order, axis=1).T
        patterns = {
            1: ((a, ab, c), (ab, b, c)),
            2: ((a, ab, bc), (ab, b, bc), (a, bc, c)),
            3: ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)),
        }
        parts += [(np.stack(one, axis=1), rows) for one in patterns[number]]
    source = np.concatenate([rows for _, rows in parts])
    return Surface(
        halved(surface.vertices),
        halved(surface.uvs),
        halved(surface.colors),
        np.concatenate([triangles for triangles, _ in parts]),
        surface.material[source],
        surface.object[source],
    )
