"""The voxel stages of the builder: rasterise triangles, filter spans, link cells and erode.

They re-create functions of Recast 1.6: ``rasterise`` rcRasterizeTriangles, ``filter_low_hanging``
rcFilterLowHangingWalkableObstacles, ``filter_ledges`` rcFilterLedgeSpans, ``find_floors``
rcFilterWalkableLowHeightSpans, ``link`` rcBuildCompactHeightfield, ``boundary_distance`` the distance field of
rcErodeWalkableArea and rcBuildDistanceField.

Columns of the grid are numbered ``z * width + x``. A solid span is a run of filled voxels in a column, and an open span
is the walkable top of one. Directions 0 to 3 lead to x - 1, z + 1, x + 1 and z - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER, to_int64

STEP_X = np.array([-1, 0, 1, 0])
STEP_Z = np.array([0, 1, 0, -1])
OPEN_SKY = 2**30  # the ceiling of a span with nothing above it
MAX_STEPS = 2**29  # steps along lists of spans while triangles are rasterised; they take at most six seconds


@njit(**INNER)
def _copy_point(points: np.ndarray, row: int, out: np.ndarray, out_row: int) -> None:
    """Copy one row of [n, 3]; assigning rows would also compile NumPy's shape errors, which takes seconds."""
    for k in range(3):
        out[out_row, k] = points[row, k]


class LinkedSpans(NamedTuple):
    """Solid spans, each with the next higher one of its column; 9 bytes per span, as there may be very many."""

    following: np.ndarray  # [S] int32, -1 for the highest
    bottom: np.ndarray  # [S] int16, voxels
    top: np.ndarray  # [S] int16, voxels
    walkable: np.ndarray  # [S] bool


class SolidSpans(NamedTuple):
    """Solid spans column by column, lowest first."""

    start: np.ndarray  # [columns + 1] int32, first span of every column
    bottom: np.ndarray  # [S] int16, voxels
    top: np.ndarray  # [S] int16, voxels
    walkable: np.ndarray  # [S] bool


class OpenSpans(NamedTuple):
    """The walkable tops of solid spans column by column, lowest first."""

    start: np.ndarray  # [columns + 1] int32, first span of every column
    column: np.ndarray  # [F] int32
    floor: np.ndarray  # [F] int16, voxels
    ceiling: np.ndarray  # [F] int32, voxels, OPEN_SKY for none


@njit(**INNER)
def _split(
    points: np.ndarray, count: int, axis: int, limit: np.float32, below: np.ndarray, above: np.ndarray
) -> tuple[int, int]:
    """Cut a convex polygon along ``axis`` at ``limit`` (Recast's dividePoly).

    Its vertices are ``points[:count]``, and ``axis`` is 0 for x or 2 for z; ``below`` and ``above`` are written.

    Returns:
        The number of vertices of the part below and of the part above.
    """
    num_below = num_above = 0
    last = count - 1
    for index in range(count):
        side = limit - points[index, axis]
        last_side = limit - points[last, axis]
        if (side >= 0) != (last_side >= 0):
            share = last_side / (last_side - side)
            for k in range(3):
                cut = points[last, k] + (points[index, k] - points[last, k]) * share
                below[num_below, k] = cut
                above[num_above, k] = cut
            num_below += 1
            num_above += 1
            keep_below = side > 0
            keep_above = side < 0
        else:
            keep_below = side >= 0
            keep_above = side <= 0
        if keep_below:
            _copy_point(points, index, below, num_below)
            num_below += 1
        if keep_above:
            _copy_point(points, index, above, num_above)
            num_above += 1
        last = index
    return num_below, num_above


@njit(**ENTRY)
def rasterise(
    points: np.ndarray,
    triangles: np.ndarray,
    walkable: np.ndarray,
    cell_size: np.float32,
    cell_height: np.float32,
    width: int,
    depth: int,
    max_spans: int,
    expected_spans: int,
) -> tuple[np.ndarray, LinkedSpans, int]:
    """Fill the voxels that triangles touch, as rcRasterizeTriangles does.

    Spans of a column that overlap or touch are merged, and the merged span is walkable if any of its triangles is.
    Recast's rule gives nearly the same result for dense triangles but depends on their order; this one does not.

    Args:
        points: [V, 3] float32, metres from the lowest corner of the grid, none negative.
        triangles: [T, 3] int.
        walkable: [T] bool, whether the triangle is flat enough to stand on.
        cell_size: Side of a cell, metres, float32.
        cell_height: Height of a voxel, metres, float32.
        width: Cells along x.
        depth: Cells along z.
        max_spans: Limit of the number of spans.
        expected_spans: Number of spans to reserve memory for; the system provides it as it is written.

    Returns:
        Linked lists of spans, lowest first: head [width * depth] int32, -1 for an empty column, and the spans, some of
        which may be in no list. Last the number of spans, or -1 if there are more than ``max_spans``, or -2 if the
        lists are so long that they would take more than MAX_STEPS steps.
    """
    head = np.full(width * depth, -1, np.int32)
    room = min(max(expected_spans, 64), max_spans)
    following = np.empty(room, np.int32)
    bottoms = np.empty(room, np.int16)
    tops = np.empty(room, np.int16)
    flats = np.empty(room, np.bool_)
    num_spans = num_steps = 0
    rest = np.empty((12, 3), np.float32)
    row = np.empty((12, 3), np.float32)
    spare = np.empty((12, 3), np.float32)
    cell = np.empty((12, 3), np.float32)
    per_metre = np.float32(1) / cell_size
    per_level = np.float32(1) / cell_height
    for triangle in range(len(triangles)):
        for k in range(3):
            _copy_point(points, to_int64(triangles[triangle, k]), rest, k)
        num_rest = to_int64(3)
        first_z = min(int(min(rest[0, 2], rest[1, 2], rest[2, 2]) * per_metre), depth - 1)
        last_z = min(int(max(rest[0, 2], rest[1, 2], rest[2, 2]) * per_metre), depth - 1)
        for z in range(first_z, last_z + 1):
            num_row, num_rest = _split(rest, num_rest, to_int64(2), np.float32(z + 1) * cell_size, row, spare)
            rest, spare = spare, rest
            if num_row < 3:
                continue
            low = high = row[0, 0]
            for k in range(1, num_row):
                low = min(low, row[k, 0])
                high = max(high, row[k, 0])
            for x in range(min(int(low * per_metre), width - 1), min(int(high * per_metre), width - 1) + 1):
                num_cell, num_row = _split(row, num_row, to_int64(0), np.float32(x + 1) * cell_size, cell, spare)
                row, spare = spare, row
                if num_cell < 3:
                    continue
                low_y = high_y = cell[0, 1]
                for k in range(1, num_cell):
                    low_y = min(low_y, cell[k, 1])
                    high_y = max(high_y, cell[k, 1])
                bottom = int(np.floor(low_y * per_level))
                top = max(int(np.ceil(high_y * per_level)), bottom + 1)
                flat = walkable[triangle]
                # Merge the new span with all that it touches, and store it in place of the first of those.
                column = z * width + x
                before = -1
                span = head[column]
                while span >= 0 and tops[span] < bottom:
                    before = span
                    span = following[span]
                    num_steps += 1
                place = -1
                while span >= 0 and bottoms[span] <= top:
                    bottom = min(bottom, bottoms[span])
                    top = max(top, tops[span])
                    flat |= flats[span]
                    place = span
                    span = following[span]
                if num_steps > MAX_STEPS:
                    return head, LinkedSpans(following, bottoms, tops, flats), -2
                if place < 0:
                    if num_spans == max_spans:
                        return head, LinkedSpans(following, bottoms, tops, flats), -1
                    if num_spans == len(following):
                        following = np.concatenate((following, np.empty_like(following)))
                        bottoms = np.concatenate((bottoms, np.empty_like(bottoms)))
                        tops = np.concatenate((tops, np.empty_like(tops)))
                        flats = np.concatenate((flats, np.empty_like(flats)))
                    place = num_spans
                    num_spans += 1
                bottoms[place] = bottom
                tops[place] = top
                flats[place] = flat
                following[place] = span
                if before >= 0:
                    following[before] = place
                else:
                    head[column] = place
    return head, LinkedSpans(following, bottoms, tops, flats), num_spans


@njit(**ENTRY)
def flatten(head: np.ndarray, spans: LinkedSpans) -> SolidSpans:
    """Turn the linked lists of `rasterise` into arrays sorted by column."""
    start = np.zeros(len(head) + 1, np.int32)
    for column in range(len(head)):
        span = head[column]
        count = 0
        while span >= 0:
            count += 1
            span = spans.following[span]
        start[column + 1] = start[column] + count
    bottom = np.empty(start[-1], np.int16)
    top = np.empty(start[-1], np.int16)
    walkable = np.empty(start[-1], np.bool_)
    for column in range(len(head)):
        span = head[column]
        for place in range(start[column], start[column + 1]):
            bottom[place] = spans.bottom[span]
            top[place] = spans.top[span]
            walkable[place] = spans.walkable[span]
            span = spans.following[span]
    return SolidSpans(start, bottom, top, walkable)


def filter_low_hanging(spans: SolidSpans, climb: int) -> None:
    """Make obstacles walkable whose tops are at most ``climb`` voxels above walkable ground.

    Re-creates rcFilterLowHangingWalkableObstacles. An obstacle on top of such an obstacle is not made walkable.
    """
    start, _, top, walkable = spans
    raised = np.zeros(len(top), bool)
    raised[1:] = walkable[:-1] & (np.diff(top) <= climb)
    raised[start[:-1][start[:-1] < len(top)]] = False  # the lowest span of a column has none beneath it
    np.logical_or(walkable, raised, out=walkable)


@njit(**ENTRY)
def filter_ledges(spans: SolidSpans, width: int, height: int, climb: int) -> None:
    """Mark spans as not walkable next to a drop of more than ``climb`` voxels or on a slope as steep.

    Re-creates rcFilterLedgeSpans. The agent needs ``height`` voxels above the floor.
    """
    start, bottom, top, walkable = spans
    columns = len(start) - 1
    for column in range(columns):
        x = column % width
        for span in range(start[column], start[column + 1]):
            if not walkable[span]:
                continue
            floor = top[span]
            ceiling = bottom[span + 1] if span + 1 < start[column + 1] else OPEN_SKY
            drop = OPEN_SKY
            lowest = floor
            highest = floor
            for direction in range(4):
                nx = x + STEP_X[direction]
                other = column + STEP_X[direction] + width * STEP_Z[direction]
                if nx < 0 or nx >= width or other < 0 or other >= columns:
                    drop = -climb - 1
                    break
                first = start[other]
                last = start[other + 1]
                over = bottom[first] if first < last else OPEN_SKY
                if min(ceiling, over) - floor >= height:
                    drop = -climb - 1  # The neighbouring column is empty at this height.
                    break
                for neighbour in range(first, last):
                    next_floor = top[neighbour]
                    if ceiling - next_floor < height:
                        break
                    over = bottom[neighbour + 1] if neighbour + 1 < last else OPEN_SKY
                    if min(ceiling, over) - max(floor, next_floor) < height:
                        continue
                    rise = next_floor - floor
                    drop = min(drop, rise)
                    if abs(rise) <= climb:
                        lowest = min(lowest, next_floor)
                        highest = max(highest, next_floor)
                    elif rise < -climb:
                        break
            if drop < -climb or highest - lowest > climb:
                walkable[span] = False


def find_floors(spans: SolidSpans, height: int) -> OpenSpans:
    """List the open spans, the walkable tops with at least ``height`` voxels above (rcFilterWalkableLowHeightSpans)."""
    start, bottom, top, walkable = spans
    ceiling = np.full(len(top), OPEN_SKY, np.int32)
    ceiling[:-1] = bottom[1:]
    ceiling[start[1:][start[1:] > 0] - 1] = OPEN_SKY  # above the highest span of a column
    kept = walkable & (ceiling - top >= height)
    first = np.append(np.int32(0), np.cumsum(kept, dtype=np.int32))[start]
    column = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(first))
    return OpenSpans(first, column, top[kept], ceiling[kept])


@njit(**ENTRY)
def link(spans: OpenSpans, width: int, height: int, climb: int) -> np.ndarray:
    """Link every open span to the one that an agent steps onto in each direction (rcBuildCompactHeightfield).

    The agent steps up or down by at most ``climb`` voxels and needs ``height`` voxels above the floor.

    Returns:
        [F, 4] int32, neighbour in every direction, -1 for none.
    """
    start, column, floor, ceiling = spans
    links = np.full((len(floor), 4), -1, np.int32)
    for span in range(len(floor)):
        x = column[span] % width
        for direction in range(4):
            nx = x + STEP_X[direction]
            other = column[span] + STEP_X[direction] + width * STEP_Z[direction]
            if nx < 0 or nx >= width or other < 0 or other >= len(start) - 1:
                continue
            for neighbour in range(start[other], start[other + 1]):
                room = min(ceiling[span], ceiling[neighbour]) - max(floor[span], floor[neighbour])
                if room >= height and abs(floor[neighbour] - floor[span]) <= climb:
                    links[span, direction] = neighbour
                    break
    return links


@njit(**ENTRY)
def boundary_distance(links: np.ndarray) -> np.ndarray:
    """Compute the distance field of Recast's rcErodeWalkableArea by two sweeps of a chamfer transform.

    Returns:
        [S] int32, distance in half cells to the nearest span without four links; straight steps count 2 and diagonal
        steps 3.
    """
    distance = np.empty(len(links), np.int32)
    for span in range(len(links)):
        distance[span] = OPEN_SKY if links[span].min() >= 0 else 0
    for span in range(len(links)):
        for first, second in ((0, 3), (3, 2)):
            _relax(links, distance, span, first, second)
    for span in range(len(links) - 1, -1, -1):
        for first, second in ((2, 1), (1, 0)):
            _relax(links, distance, span, first, second)
    return distance


@njit(**INNER)
def _relax(links: np.ndarray, distance: np.ndarray, span: int, first: int, second: int) -> None:
    beside = links[span, first]
    if beside >= 0:
        distance[span] = min(distance[span], distance[beside] + 2)
        diagonal = links[beside, second]
        if diagonal >= 0:
            distance[span] = min(distance[span], distance[diagonal] + 3)


@njit(**ENTRY)
def keep_spans(links: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Renumber the links [F, 4] among the spans of a mask [F]; links to other spans become -1.

    Returns:
        [K, 4] int32, the first rows of ``links``, which is overwritten to save memory.
    """
    new_index = np.full(len(kept), -1, np.int32)
    count = 0
    for span in range(len(kept)):
        if kept[span]:
            new_index[span] = count
            count += 1
    for span in range(len(kept)):
        if kept[span]:
            for direction in range(4):
                beside = links[span, direction]
                links[new_index[span], direction] = new_index[beside] if beside >= 0 else -1
    return links[:count]


def column_starts(column: np.ndarray, num_columns: int) -> np.ndarray:
    """Return the first span of every column and the number of all, [num_columns + 1] int32, of sorted columns [F]."""
    return np.searchsorted(column, np.arange(num_columns + 1, dtype=np.int32)).astype(np.int32)
