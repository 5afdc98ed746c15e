"""Detour's path search in plain Python: slow, and obvious next to the descriptions of findPath and findStraightPath."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gym_batchnav.navmesh import NavMesh

F = np.float32
MAX_NODES = 2048
MAX_POLYGONS = 256


@dataclass(eq=False)
class Node:
    polygon: int
    position: np.ndarray
    parent: Node | None = None
    cost: np.float32 = field(default_factory=F)
    total: np.float32 = field(default_factory=F)
    status: str = "new"


def twin_path(mesh: NavMesh, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The points [M, 3] of the path between two points; none if Detour reports no path."""
    (start, goal), (first, last) = mesh.snap_with_polygon(np.stack([start, goal]))
    none = np.zeros((0, 3), F)
    if min(first, last) < 0 or mesh.polygon_island[first] != mesh.polygon_island[last]:
        return none
    corridor = twin_corridor(mesh, int(first), start, int(last), goal)
    if not 0 < len(corridor) <= MAX_POLYGONS:
        return none
    points = funnel(mesh, corridor, start, goal)
    return np.array(points, F) if len(points) < MAX_POLYGONS else none


def twin_length(mesh: NavMesh, start: np.ndarray, goal: np.ndarray) -> float:
    points = twin_path(mesh, start, goal)
    return float(sum(map(dist, points[:-1], points[1:]), F(0))) if len(points) else np.inf


def dist(a: np.ndarray, b: np.ndarray) -> np.float32:
    x, y, z = b - a
    return np.sqrt(x * x + y * y + z * z)


def corners(mesh: NavMesh, polygon: int) -> np.ndarray:
    row = mesh.polygons[polygon]
    return mesh.vertices[row[row >= 0]]


def edge_between(mesh: NavMesh, polygon: int, other: int) -> tuple[np.ndarray, np.ndarray]:
    points = corners(mesh, polygon)
    edge = int(np.flatnonzero(mesh.neighbours[polygon] == other)[0])
    return points[edge], points[(edge + 1) % len(points)]


def twin_corridor(mesh: NavMesh, first: int, start: np.ndarray, last: int, goal: np.ndarray) -> list[int]:
    """The polygons that A* over the midpoints of edges visits; none if it runs out of nodes."""
    if first == last:
        return [first]
    nodes = {first: Node(first, start, total=dist(start, goal) * F(0.999), status="open")}
    heap = [nodes[first]]
    while heap:
        node = pop(heap)
        node.status = "closed"
        if node.polygon == last:
            corridor = []
            while node is not None:
                corridor.insert(0, node.polygon)
                node = node.parent
            return corridor
        for other in mesh.neighbours[node.polygon].tolist():
            if other < 0 or (node.parent is not None and other == node.parent.polygon):
                continue
            if other not in nodes:
                if len(nodes) == MAX_NODES:
                    return []
                a, b = edge_between(mesh, node.polygon, other)
                nodes[other] = Node(other, (a + b) * F(0.5))
            reached = nodes[other]
            cost = node.cost + dist(node.position, reached.position)
            if other == last:
                cost = cost + dist(reached.position, goal)
                total = cost
            else:
                total = cost + dist(reached.position, goal) * F(0.999)
            if reached.status == "new" or total < reached.total:
                reached.parent, reached.cost, reached.total = node, cost, total
                if reached.status == "open":
                    place = heap.index(reached)
                else:
                    place = len(heap)
                    heap.append(reached)
                reached.status = "open"
                rise(heap, place)
    return []


def rise(heap: list[Node], place: int) -> None:
    while place and heap[(place - 1) // 2].total > heap[place].total:
        above = (place - 1) // 2
        heap[place], heap[above] = heap[above], heap[place]
        place = above


def pop(heap: list[Node]) -> Node:
    top = heap[0]
    last = heap.pop()
    if heap:
        place = 0
        while 2 * place + 1 < len(heap):
            children = heap[2 * place + 1 : 2 * place + 3]
            child = 2 * place + 1 + (len(children) == 2 and children[0].total > children[1].total)
            heap[place] = heap[child]
            place = child
        heap[place] = last
        rise(heap, place)
    return top


def area(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.float32:
    (bx, _, bz), (cx, _, cz) = b - a, c - a
    return cx * bz - bx * cz


def same(a: np.ndarray, b: np.ndarray) -> bool:
    x, y, z = b - a
    return bool(x * x + y * y + z * z < F(1 / 16384) ** 2)


def on_edge(point: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.float32, np.float32]:
    """The squared distance to an edge seen from above, and the fraction of the edge at the nearest point."""
    ux, _, uz = b - a
    px, _, pz = point - a
    length = ux * ux + uz * uz
    t = ux * px + uz * pz
    t = np.clip(t / length if length > 0 else t, F(0), F(1))
    x = a[0] + t * ux - point[0]
    z = a[2] + t * uz - point[2]
    return x * x + z * z, t


def into(mesh: NavMesh, polygon: int, point: np.ndarray) -> np.ndarray:
    """The point, or the nearest one on the outline if it is outside (crossing number)."""
    b = corners(mesh, polygon)
    a = np.roll(b, 1, axis=0)
    spans = (a[:, 2] > point[2]) != (b[:, 2] > point[2])
    with np.errstate(divide="ignore", invalid="ignore"):
        x = (a[:, 0] - b[:, 0]) * (point[2] - b[:, 2]) / (a[:, 2] - b[:, 2]) + b[:, 0]
    if (spans & (point[0] < x)).sum() % 2:
        return point
    found = [on_edge(point, one, two) for one, two in zip(a, b, strict=True)]
    k = int(np.argmin([distance for distance, _ in found]))
    return a[k] + (b[k] - a[k]) * found[k][1]


def funnel(mesh: NavMesh, corridor: list[int], start: np.ndarray, goal: np.ndarray) -> list[np.ndarray]:
    """The string pulled taut through the edges between the polygons."""
    apex = into(mesh, corridor[0], start)
    end = into(mesh, corridor[-1], goal)
    doors = [edge_between(mesh, a, b) for a, b in pairwise(corridor)] + [(end, end)]
    points = [apex]

    def add(point: np.ndarray) -> None:
        if not same(points[-1], point):
            points.append(point)

    left = right = apex
    left_door = right_door = 0
    door = 0
    if len(doors) > 1 and on_edge(apex, *doors[0])[0] < F(0.001) ** 2:
        door = 1
    while door < len(doors):
        new_left, new_right = doors[door]
        if area(apex, right, new_right) <= 0:
            if same(apex, right) or area(apex, left, new_right) > 0:
                right, right_door = new_right, door
            else:
                apex, door = left, left_door
                add(apex)
                left = right = apex
                left_door = right_door = door
                door += 1
                continue
        if area(apex, left, new_left) >= 0:
            if same(apex, left) or area(apex, right, new_left) < 0:
                left, left_door = new_left, door
            else:
                apex, door = right, right_door
                add(apex)
                left = right = apex
                left_door = right_door = door
        door += 1
    add(end)
    return points
