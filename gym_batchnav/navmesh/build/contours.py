"""Outlines of regions: borders are traced along cells and simplified, and holes are joined to their outlines.

This re-creates Recast's rcBuildContours: ``trace`` its walkContour and getCornerHeight, ``simplify`` simplifyContour,
``find_bridge`` and ``merge_holes`` mergeRegionHoles. The predicates on integer points are those of O'Rourke,
"Computational Geometry in C" (1998), chapter 1, which Recast uses too.

Points are integers: x and z count cells, y counts voxels. With x to the right and z up, outlines run clockwise and
holes counter-clockwise.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.navmesh.build.regions import SOLID
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

# The corner of a cell at the end of the edge that faces each direction.
CORNER_X = np.array([0, 1, 1, 0])
CORNER_Z = np.array([1, 1, 0, 0])

MAX_HOLE_PAIRS = 2**30  # pairs of a hole and a corner of its region; joining that many takes a few seconds


@njit(**ENTRY)
def trace(
    links: np.ndarray, floor: np.ndarray, column: np.ndarray, region: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walk along all borders between regions, and between regions and walls.

    ``links`` [S, 4], ``floor``, ``column`` and ``region`` [S] are those of the open spans.

    Returns:
        points [N, 4] int32: x, y, z and the region across the edge that leads to the point; start [C + 1] int64, the
        first point of each of the C closed borders; owner [C] int32, the region inside each.
    """
    edges = np.zeros(len(links), np.uint8)
    total = 0
    for span in range(len(links)):
        for direction in range(4):
            beside = links[span, direction]
            if region[span] != SOLID and (beside < 0 or region[beside] != region[span]):
                edges[span] |= 1 << direction
                total += 1
    points = np.empty((total, 4), np.int32)
    start = np.zeros(total + 1, np.int64)
    owner = np.empty(total, np.int32)
    count = borders = 0
    for first in range(len(links)):
        while edges[first]:
            direction = 0
            while not edges[first] >> direction & 1:
                direction += 1
            span = first
            begin = direction
            while True:
                beside = links[span, direction]
                if edges[span] >> direction & 1:
                    points[count, 0] = column[span] % width + CORNER_X[direction]
                    points[count, 1] = _corner_height(links, floor, span, direction)
                    points[count, 2] = column[span] // width + CORNER_Z[direction]
                    points[count, 3] = region[beside] if beside >= 0 else SOLID
                    count += 1
                    edges[span] &= ~(1 << direction)
                    direction = (direction + 1) & 3
                else:
                    span = beside
                    direction = (direction + 3) & 3
                if span == first and direction == begin:
                    break
            owner[borders] = region[first]
            borders += 1
            start[borders] = count
    return points[:count], start[: borders + 1], owner[:borders]


@njit(**INNER)
def _corner_height(links: np.ndarray, floor: np.ndarray, span: int, direction: int) -> int:
    """Return the highest floor of the up to four spans around a corner, so that all regions there get the same."""
    turned = (direction + 1) & 3
    height = floor[span]
    for first, second in ((direction, turned), (turned, direction)):
        beside = links[span, first]
        if beside >= 0:
            height = max(height, floor[beside])
            diagonal = links[beside, second]
            if diagonal >= 0:
                height = max(height, floor[diagonal])
    return height


@njit(**ENTRY)
def simplify(points: np.ndarray, max_error: np.float32, max_length: int, kept: np.ndarray) -> int:
    """Choose the points of one traced border that make up the simplified border.

    Points where the region across changes are kept, so that neighbours have the same corners. Along walls the point
    farthest from its edge is added until none is farther than ``max_error``; then edges that are too long are split.

    ``points`` [N, 4] int32 are those of one border from `trace`. Lengths are in cells; a ``max_length`` of 0 sets
    no limit. ``kept`` [N] int64 is written: rows of points, in order.

    Returns:
        The number of rows written.
    """
    total = len(points)
    count = 0
    for row in range(total):
        if points[row, 3] != points[(row + 1) % total, 3]:
            kept[count] = row
            count += 1
    if count == 0:
        low = high = 0
        for row in range(total):
            x = points[row, 0]
            z = points[row, 2]
            if x < points[low, 0] or (x == points[low, 0] and z < points[low, 2]):
                low = row
            if x > points[high, 0] or (x == points[high, 0] and z > points[high, 2]):
                high = row
        kept[0] = low
        kept[1] = high
        count = 2
    limit = max_error * max_error
    for stage in range(2):
        place = 0
        while place < count:
            first = kept[place]
            last = kept[(place + 1) % count]
            ax = points[first, 0]
            az = points[first, 2]
            bx = points[last, 0]
            bz = points[last, 2]
            forward = bx > ax or (bx == ax and bz > az)
            length = last - first if last > first else last - first + total
            new = -1
            if points[(first + 1) % total, 3] != SOLID:
                pass
            elif stage == 0:
                new = _farthest(points, first, last, length, forward, limit)
            elif max_length > 0 and length > 1 and (bx - ax) ** 2 + (bz - az) ** 2 > max_length**2:
                new = (first + (length if forward else length + 1) // 2) % total
            if new < 0:
                place += 1
                continue
            for k in range(count, place + 1, -1):
                kept[k] = kept[k - 1]
            kept[place + 1] = new
            count += 1
    return count


@njit(**INNER)
def _farthest(points: np.ndarray, first: int, last: int, length: int, forward: bool, limit: np.float32) -> int:
    """Return the row between two others that is farthest from their edge, -1 if none exceeds ``limit`` (squared)."""
    begin, end, step = (first, last, 1) if forward else (last, first, -1)
    total = len(points)
    ax = np.float32(points[begin, 0])
    az = np.float32(points[begin, 2])
    dx = np.float32(points[end, 0]) - ax
    dz = np.float32(points[end, 2]) - az
    squared = dx * dx + dz * dz
    best = -1
    worst = limit
    for k in range(1, length):
        row = (begin + k * step) % total
        px = np.float32(points[row, 0]) - ax
        pz = np.float32(points[row, 2]) - az
        share = px * dx + pz * dz
        if squared > 0:
            share /= squared
        share = min(max(share, np.float32(0)), np.float32(1))
        ex = share * dx - px
        ez = share * dz - pz
        error = ex * ex + ez * ez
        if error > worst:
            best = row
            worst = error
    return best


@njit(**SMALL)
def turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> int:
    """Return twice the signed area of a triangle of points [.., 3] int32: negative if it winds as outlines do."""
    return (np.int64(b[0]) - a[0]) * (np.int64(c[2]) - a[2]) - (np.int64(c[0]) - a[0]) * (np.int64(b[2]) - a[2])


@njit(**INNER)
def between(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> bool:
    """Return whether c lies on the segment from a to b, ends included."""
    if turn(a, b, c) != 0:
        return False
    if a[0] != b[0]:
        return min(a[0], b[0]) <= c[0] <= max(a[0], b[0])
    return min(a[2], b[2]) <= c[2] <= max(a[2], b[2])


@njit(**INNER)
def cross_inside(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    """Return whether the segments ab and cd cross at a point that is an end of neither."""
    first = turn(a, b, c)
    second = turn(a, b, d)
    third = turn(c, d, a)
    fourth = turn(c, d, b)
    if first == 0 or second == 0 or third == 0 or fourth == 0:
        return False
    return (first < 0) != (second < 0) and (third < 0) != (fourth < 0)


@njit(**SMALL)
def touch(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    """Return whether the segments ab and cd have a point in common."""
    return cross_inside(a, b, c, d) or between(a, b, c) or between(a, b, d) or between(c, d, a) or between(c, d, b)


@njit(**SMALL)
def same_place(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two points coincide seen from above."""
    return a[0] == b[0] and a[2] == b[2]


@njit(**INNER)
def in_cone(before: np.ndarray, corner: np.ndarray, after: np.ndarray, target: np.ndarray) -> bool:
    """Return whether the line from a corner of an outline to a target starts strictly inside the outline."""
    if turn(before, corner, after) <= 0:
        return turn(corner, target, before) < 0 and turn(target, corner, after) < 0
    return not (turn(corner, target, after) <= 0 and turn(target, corner, before) <= 0)


@njit(**INNER)
def _blocked(a: np.ndarray, b: np.ndarray, ring: np.ndarray, skip: int) -> bool:
    """Return whether the segment ab touches an edge of a ring other than those at its vertex ``skip``."""
    low_x = min(a[0], b[0])
    high_x = max(a[0], b[0])
    low_z = min(a[2], b[2])
    high_z = max(a[2], b[2])
    for row in range(len(ring)):
        following = (row + 1) % len(ring)
        if row == skip or following == skip:
            continue
        c = ring[row]
        d = ring[following]
        if max(c[0], d[0]) < low_x or min(c[0], d[0]) > high_x or max(c[2], d[2]) < low_z or min(c[2], d[2]) > high_z:
            continue
        if same_place(a, c) or same_place(b, c) or same_place(a, d) or same_place(b, d):
            continue
        if touch(a, b, c, d):
            return True
    return False


@njit(**ENTRY)
def find_bridge(outline: np.ndarray, holes: np.ndarray, hole_start: np.ndarray, hole: int) -> tuple[int, int]:
    """Find the shortest line that joins a hole to the outline without touching anything else.

    ``holes`` [M, 3] int32 are the vertices of all holes that are not yet joined, ``hole_start`` [H + 1] int64 the first
    vertex of each.

    Returns:
        The row in the outline and the row in the hole; -1 twice if there is no such line.
    """
    own = holes[hole_start[hole] : hole_start[hole + 1]]
    left = 0
    for row in range(1, len(own)):
        if own[row, 0] < own[left, 0] or (own[row, 0] == own[left, 0] and own[row, 2] < own[left, 2]):
            left = row
    for offset in range(len(own)):
        row = (left + offset) % len(own)
        corner = own[row]
        tried = to_int64(-1)
        last = np.int64(-1)
        while True:  # from the nearest vertex on, because the tests of a line take as long as all distances
            best = to_int64(-1)
            nearest = np.int64(2**62)
            for k in range(len(outline)):
                dx = np.int64(outline[k, 0]) - corner[0]
                dz = np.int64(outline[k, 2]) - corner[2]
                squared = dx * dx + dz * dz
                if squared >= nearest or squared < last or (squared == last and k <= tried):
                    continue
                if in_cone(outline[k - 1], outline[k], outline[(k + 1) % len(outline)], corner):
                    best = to_int64(k)
                    nearest = squared
            if best < 0:
                break
            free = not _blocked(outline[best], corner, outline, best)
            for other in range(len(hole_start) - 1):
                ring = holes[hole_start[other] : hole_start[other + 1]]
                if not free or _blocked(outline[best], corner, ring, to_int64(-1)):
                    free = False
                    break
            if free:
                return best, row
            tried = best
            last = nearest
    return -1, -1


def merge_holes(outline: np.ndarray, holes: list[np.ndarray]) -> np.ndarray:
    """Join holes, rings in the opposite direction, to their outline [N, 3]; holes without a bridge are left out."""
    holes = sorted(holes, key=lambda ring: min((x, z) for x, _, z in ring.tolist()))
    while holes:
        start = np.concatenate([[0], np.cumsum([len(ring) for ring in holes])])
        row, hole_row = find_bridge(outline, np.concatenate(holes), start, 0)
        hole = holes.pop(0)
        if row >= 0:
            there = np.roll(outline, -row, axis=0)
            back = np.roll(hole, -hole_row, axis=0)
            outline = np.concatenate([there, there[:1], back, back[:1]])
    return outline


def region_outlines(
    points: np.ndarray, start: np.ndarray, owner: np.ndarray, max_error: float, max_length: int
) -> dict[int, list[np.ndarray]]:
    """Simplify traced borders and join the holes of every region to its outline.

    The borders are those of `trace`. Lengths are in cells; a ``max_length`` of 0 sets no limit.

    Returns:
        The rings [M, 3] int32 of every region, usually one.

    Raises:
        ValueError: If a region has so many holes that joining them would take long.
    """
    outlines: dict[int, list[np.ndarray]] = {}
    holes: dict[int, list[np.ndarray]] = {}
    kept = np.empty(int(np.diff(start).max(initial=2)) + 2, np.int64)
    for border in range(len(owner)):
        traced = points[start[border] : start[border + 1]]
        count = simplify(traced, np.float32(max_error), max_length, kept)
        ring = np.ascontiguousarray(traced[kept[:count], :3])
        moved = (ring[:, ::2] != np.roll(ring[:, ::2], -1, axis=0)).any(axis=1)
        ring = ring[moved]
        if len(ring) < 3:
            continue
        x = ring[:, 0].astype(np.int64)
        z = ring[:, 2].astype(np.int64)
        area = int((x * np.roll(z, -1) - np.roll(x, -1) * z).sum())
        (outlines if area < 0 else holes).setdefault(int(owner[border]), []).append(ring)
    for number, inner in holes.items():
        num_vertices = sum(map(len, (*inner, *outlines.get(number, []))))
        if len(inner) * num_vertices > MAX_HOLE_PAIRS:
            raise ValueError(
                f"a part of the floor has {len(inner):,} holes and {num_vertices:,} corners, too many to divide it "
                "into polygons: give a larger cell_size or edge_max_error, or split the scene"
            )
    return {number: [merge_holes(rings[0], holes.get(number, [])), *rings[1:]] for number, rings in outlines.items()}
