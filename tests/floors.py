"""Navmeshes drawn as text, with answers that need no navmesh: a digit is a square metre of floor."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import dijkstra

from gym_batchnav.navmesh.mesh import NavMesh, NavMeshData, NavMeshSettings
from gym_batchnav.navmesh.record import label_islands

SCENES = (
    *("aws_bookstore", "aws_small_house", "drake_living_room", "godot_living_room"),
    *("godot_room", "recast_dungeon", "recast_nav_test", "van_gogh_room"),
)
HAIR = 1e-6  # metres


def floor_plan(*storeys: list[str]) -> NavMesh:
    """One square polygon for every digit; column i is x in [i, i + 1], row j is z in [j, j + 1].

    The digit is the height of the square in metres; squares of one storey are joined where they touch, whatever their
    heights, by taking the height of every vertex from the last square that has it.
    """
    vertices: list[list[float]] = []
    polygons: list[list[int]] = []
    for rows in storeys:
        numbers: dict[tuple[int, int], int] = {}
        for j, row in enumerate(rows):
            for i, letter in enumerate(row):
                if letter.isdigit():
                    corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
                    for corner in corners:
                        if corner not in numbers:
                            numbers[corner] = len(vertices)
                            vertices.append([corner[0], 0.0, corner[1]])
                        vertices[numbers[corner]][1] = float(letter)
                    polygons.append([numbers[corner] for corner in corners])
    return mesh_of(vertices, polygons)


def mesh_of(vertices: list[list[float]], polygons: list[list[int]]) -> NavMesh:
    """A navmesh of polygons given by vertex numbers, joined where they share an edge; no detail vertices."""
    across = {(a, b): p for p, row in enumerate(polygons) for a, b in zip(row, [*row[1:], row[0]], strict=True)}
    rows, neighbours = np.full((2, len(polygons), 6), -1, np.int32)
    triangles = []
    starts = [0]
    for p, row in enumerate(polygons):
        rows[p, : len(row)] = row
        neighbours[p, : len(row)] = [across.get((b, a), -1) for a, b in zip(row, [*row[1:], row[0]], strict=True)]
        triangles += [[row[0], row[k], row[k + 1]] for k in range(1, len(row) - 1)]
        starts.append(len(triangles))
    data = NavMeshData(
        vertices=np.array(vertices, np.float32).reshape(-1, 3),
        polygons=rows,
        neighbours=neighbours,
        detail_vertices=np.zeros((0, 3), np.float32),
        detail_triangles=np.array(triangles, np.int32).reshape(-1, 3),
        detail_start=np.array(starts, np.int32),
        polygon_island=label_islands(neighbours),
        settings=NavMeshSettings(),
    )
    return NavMesh(data)


def indexed(*parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of triangle soups [T, 3, 3]."""
    vertices = np.concatenate(parts).reshape(-1, 3)
    return vertices, np.arange(len(vertices), dtype=np.int32).reshape(-1, 3)


def plan_distance(rows: list[str], start: np.ndarray, goal: np.ndarray) -> float:
    """Shortest path on a flat plan of one storey, from the squares alone: a graph of all corners of missing squares."""
    free = np.array([[letter.isdigit() for letter in row] for row in rows])
    nodes = [np.asarray(start, float), np.asarray(goal, float)]
    for j, i in np.argwhere(np.ones(np.subtract(free.shape, 1))) + 1:
        around = free[j - 1 : j + 1, i - 1 : i + 1]
        if around.sum() == 3:  # a corner; the node stands slightly off it
            away = (0.5 - np.argwhere(~around)[0])[::-1]
            nodes.append(np.array([i, j]) + 4 * HAIR * away)
        elif around.sum() == 2 and around[0, 0] == around[1, 1]:  # two squares meet in a point: no way through
            nodes += [np.array([i, j]) + 4 * HAIR * (square - 0.5)[::-1] for square in np.argwhere(around)]
    boxes = np.argwhere(np.pad(~free, 1, constant_values=True))[:, ::-1] - 1.0  # x, z of the lower corners
    places = np.array(nodes)
    graph = [np.where(_clear(boxes, a, places), np.linalg.norm(places - a, axis=1), 0) for a in places]
    return float(dijkstra(np.array(graph), indices=0)[1])


def _clear(boxes: np.ndarray, a: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Whether the segments from a to ``ends`` [N, 2] avoid the unit squares at ``boxes``, made a hair larger: [N]."""
    direction = (ends - a)[:, None]
    low = boxes - HAIR
    high = boxes + 1 + HAIR
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.stack([(low - a) / direction, (high - a) / direction])
    still = direction == 0
    inside = (a > low) & (a < high)
    enter = np.where(still, np.where(inside, -np.inf, np.inf), t.min(axis=0)).max(axis=-1)
    leave = np.where(still, np.where(inside, np.inf, -np.inf), t.max(axis=0)).min(axis=-1)
    return (np.minimum(leave, 1.0) <= np.maximum(enter, 0.0)).all(axis=1)


@cache
def oracle(data_dir: Path, scene: str) -> dict[str, Any]:
    """The reference answers for a scene."""
    with gzip.open(data_dir / "fixtures" / scene / "oracle.json.gz") as file:
        return json.load(file)


@cache
def scene_mesh(data_dir: Path, scene: str) -> NavMesh:
    """Recast's navmesh of a scene."""
    return NavMesh.load(data_dir / "fixtures" / scene / "recast.navmesh")


def areas_from_above(mesh: NavMeshData) -> np.ndarray:
    """Signed areas of polygons seen from above, square metres: positive if they wind as in Detour's files."""
    areas = []
    for row in mesh.polygons:
        x, _, z = mesh.vertices[row[row >= 0]].astype(np.float64).T
        areas.append((np.roll(x, -1) @ z - x @ np.roll(z, -1)) / 2)
    return np.array(areas)
