"""Simplification of scenes with more triangles than wanted, by fast-simplification (extra ``formats``).

Each part of an object with one material is simplified by itself, so that objects and materials stay as they are. The
library collapses edges by the quadric errors of Garland and Heckbert, "Surface simplification using quadric error
metrics" (1997). Borders of parts stay as they are as long as that suffices, so that no cracks open between them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.extras import OptionalPackage

_SIMPLIFIER = OptionalPackage("fast_simplification", "fast-simplification", "formats")
MAX_ROUNDS = 12
_FEW = 32  # triangles of a part that is not simplified as long as others suffice
_PROGRESS = 0.99  # of the triangles, above which a round counts as without success
_LIBRARY = threading.Lock()  # fast-simplification keeps its mesh in global variables


def with_source(scene: Scene, again: Callable[[], Scene]) -> Scene:
    """Return a scene that is about to be simplified, with the way to load its whole geometry again."""
    return replace(scene, unsimplified=again, metadata={**scene.metadata, "whole_geometry": digest_of_geometry(scene)})


def digest_of_geometry(scene: Scene) -> str:
    """Return the SHA-256 of the vertices and triangles of a scene, and of those that are solid unless all are."""
    content = hashlib.sha256()
    solid = scene.solid_triangles
    for array in (scene.vertices, scene.triangles, *([] if solid is scene.triangles else [solid])):
        content.update(f"{array.dtype.str} {array.shape} ".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def digest_of_whole_geometry(scene: Scene) -> str:
    """Return the ``digest_of_geometry`` of a scene as it was before it was simplified."""
    known = scene.metadata.get("whole_geometry")
    return known if isinstance(known, str) else digest_of_geometry(scene)


def simplify_scene(scene: Scene, max_triangles: int) -> Scene:
    """Return a scene with at most ``max_triangles``, simplified only if it has more.

    Colours are averages, texture coordinates follow the vertices that move, and vertices that repeat others are joined.
    The navmesh and the metadata are kept; a sentence is added to the warnings.

    Raises:
        ValueError: If fast-simplification is not installed, or the scene cannot have so few triangles.
    """
    before = len(scene.triangles)
    if before <= max_triangles:
        return scene
    keeps_borders = True
    for _ in range(MAX_ROUNDS):
        last = len(scene.triangles)
        scene = _simplified(scene, max_triangles, keeps_borders)
        if len(scene.triangles) <= max_triangles:
            break
        keeps_borders = keeps_borders and len(scene.triangles) <= _PROGRESS * last
    else:
        least = f"{len(scene.triangles):,} are the fewest that it can be simplified to"
        raise ValueError(f"it has {before:,} triangles, and {least}: pass max_triangles={len(scene.triangles)} or more")
    sentence = f"It was simplified from {before:,} to {len(scene.triangles):,} triangles"
    if not keeps_borders:
        sentence += ", and there may be cracks between its parts, whose borders could not all be kept"
    return replace(scene, warnings=(*scene.warnings, sentence))


def _simplified(scene: Scene, max_triangles: int, keeps_borders: bool) -> Scene:
    """Return a scene after one round, in which every part loses the same share of its triangles."""
    kind = scene.triangle_object.astype(np.int64) * len(scene.materials) + scene.triangle_material
    order = np.argsort(kind, kind="stable")
    counts = np.unique(kind[order], return_counts=True)[1]
    ends = np.cumsum(counts)
    small = int(counts[counts <= _FEW].sum())
    spared = _FEW if small <= max_triangles / 2 else 0
    share = (max_triangles - small * (spared > 0)) / max(len(order) - small * (spared > 0), 1)
    vertices = []
    uvs = []
    colors = []
    triangles = []
    sources = []  # for every part its first triangle, which has its object and material, and its number of triangles
    start = 0
    for end, count in zip(ends.tolist(), counts.tolist(), strict=True):
        part = _Part(scene, order[end - count : end])
        if count > spared and share < 1:
            part.simplify(max(1, int(count * share)), keeps_borders)
        vertices.append(part.vertices)
        uvs.append(part.uvs)
        colors.append(part.colors)
        triangles.append(part.triangles + np.int32(start))
        sources.append((order[end - count], len(part.triangles)))
        start += len(part.vertices)
    first, lengths = (np.array(column) for column in zip(*sources, strict=True))
    return replace(
        scene,
        vertices=np.concatenate(vertices),
        triangles=np.concatenate(triangles),
        triangle_material=np.repeat(scene.triangle_material[first], lengths),
        triangle_object=np.repeat(scene.triangle_object[first], lengths),
        uvs=None if scene.uvs is None else np.concatenate(uvs),
        colors=None if scene.colors is None else np.concatenate(colors),
    )


class _Part:
    """The triangles of one object and material, with their own vertices.

    Attributes:
        vertices: [V, 3] float32.
        triangles: [T, 3] int32.
        uvs: [V, 2] float32; zeros if the scene has none.
        colors: [V, 4] uint8; white if the scene has none.
    """

    def __init__(self, scene: Scene, rows: np.ndarray) -> None:
        used, corners = np.unique(scene.triangles[rows], return_inverse=True)
        uvs = np.zeros((len(used), 2), np.float32) if scene.uvs is None else scene.uvs[used]
        colors = np.full((len(used), 4), 255, np.uint8) if scene.colors is None else scene.colors[used]
        everything = [np.ascontiguousarray(array).view(np.uint8) for array in (scene.vertices[used], uvs, colors)]
        rows_of_bytes = np.ascontiguousarray(np.concatenate(everything, axis=1)).view(np.dtype((np.void, 24)))[:, 0]
        _, first, joined = np.unique(rows_of_bytes, return_index=True, return_inverse=True)
        self.vertices = scene.vertices[used[first]]
        self.uvs = uvs[first]
        self.colors = colors[first]
        self.triangles = joined.ravel()[corners.ravel()].reshape(-1, 3).astype(np.int32)

    def simplify(self, target: int, keeps_borders: bool) -> None:
        """Collapse edges until at most ``target`` triangles are left, or no more edges can be collapsed."""
        with _LIBRARY:
            points, triangles, collapses = _SIMPLIFIER.load("max_triangles=", "leave it out").simplify(
                self.vertices, self.triangles, target_count=target, return_collapses=True, preserve_border=keeps_borders
            )
        merged_into = np.arange(len(self.vertices))  # the vertex into which each was finally collapsed
        for source, target_vertex in zip(collapses[::-1, 1].tolist(), collapses[::-1, 0].tolist(), strict=True):
            merged_into[source] = merged_into[target_vertex]
        corners = merged_into[self.triangles]
        is_proper = (corners != np.roll(corners, 1, axis=1)).all(axis=1)
        used = np.unique(corners[is_proper])
        if not len(used):
            return  # every object keeps some triangles
        if len(used) != len(points) or not np.array_equal(used[triangles], corners[is_proper]):
            return  # triangles disappeared in another way, so the attributes of the vertices are unknown
        moves = np.zeros(self.vertices.shape)
        moves[used] = points - self.vertices[used]
        self.uvs = (self.uvs + _uv_changes(self.vertices, self.triangles, self.uvs, moves))[used].astype(np.float32)
        self.colors = _means(self.colors, merged_into)[used]
        self.vertices = points.astype(np.float32)
        self.triangles = triangles.astype(np.int32)


def _uv_changes(vertices: np.ndarray, triangles: np.ndarray, uvs: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Return by how much the texture coordinates [V, 2] change where vertices [V, 3] move by ``moves`` [V, 3].

    The gradient at a vertex is the mean of its triangles', weighted by their areas.
    """
    corners = vertices[triangles].astype(np.float64)
    edge_1 = corners[:, 1] - corners[:, 0]
    edge_2 = corners[:, 2] - corners[:, 0]
    normal = np.cross(edge_1, edge_2)
    double_area = np.linalg.norm(normal, axis=1, keepdims=True)
    unit = np.divide(normal, double_area, out=np.zeros_like(normal), where=double_area > 0)
    uv = uvs[triangles].astype(np.float64)
    change = uv[:, 1:] - uv[:, :1]
    # Twice the area times the gradient of u or v: both edges' changes times the dual basis of the edges.
    dual = np.stack([np.cross(edge_2, unit), np.cross(unit, edge_1)], axis=1)
    gradients = np.einsum("tec,tex->tcx", change, dual).reshape(-1, 6)
    rows = triangles.ravel()
    total = np.stack([np.bincount(rows, np.repeat(column, 3), len(vertices)) for column in gradients.T], axis=1)
    weight = np.bincount(rows, np.repeat(double_area[:, 0], 3), len(vertices))[:, None]
    mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0).reshape(-1, 2, 3)
    return np.einsum("vcx,vx->vc", mean, moves)


def _means(colors: np.ndarray, merged_into: np.ndarray) -> np.ndarray:
    """Return the mean colours [V, 4] uint8 of all vertices that were collapsed into each vertex."""
    counts = np.maximum(np.bincount(merged_into, minlength=len(colors)), 1)
    sums = [np.bincount(merged_into, channel, len(colors)) for channel in colors.T]
    return np.rint(np.stack(sums, axis=1) / counts[:, None]).astype(np.uint8)
