"""The regions of the builder: a watershed divides linked open spans, then small regions are dropped or merged.

This re-creates Recast's rcBuildRegions: ``watershed`` its expandRegions and floodRegion on the blurred field of
rcBuildDistanceField (boxBlur), ``region_rings`` walkContour, ``merge_regions`` mergeAndFilterRegions. A *ring* lists
the regions adjacent to a region in order along its boundary; ``SOLID`` stands for a wall.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER, to_int64

EXPANSIONS = 8  # rounds in which regions grow at every level before new regions start
SOLID = 0  # the region of spans without a region


@njit(**INNER)
def _blur(links: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Smooth a distance field [S] over nine cells (boxBlur), so that the watershed makes fewer tiny regions."""
    blurred = distance.copy()
    for span in range(len(links)):
        own = distance[span]
        if own <= 2:
            continue
        total = own
        for direction in range(4):
            beside = links[span, direction]
            if beside < 0:
                total += 2 * own
                continue
            diagonal = links[beside, (direction + 1) & 3]
            total += distance[beside] + (distance[diagonal] if diagonal >= 0 else own)
        blurred[span] = (total + 5) // 9
    return blurred


@njit(**INNER)
def _expand(links: np.ndarray, region: np.ndarray, reach: np.ndarray, todo: np.ndarray, count: int, rounds: int) -> int:
    """Let regions grow into the spans ``todo[:count]`` by at most ``rounds`` cells; return the number of spans left.

    Arguments are ``links`` [S, 4], ``region`` [S], ``reach`` [S] (half cells from the spans that ``_flood`` filled) and
    ``todo`` [S], all int32; the last three are written.
    """
    won = np.empty((count, 3), np.int32)
    for _ in range(rounds):
        left = num_won = 0
        for place in range(count):
            span = todo[place]
            best = SOLID
            best_reach = 2**30
            for direction in range(4):
                beside = links[span, direction]
                if beside >= 0 and region[beside] != SOLID and reach[beside] + 2 < best_reach:
                    best = region[beside]
                    best_reach = reach[beside] + 2
            if best == SOLID:
                todo[left] = span
                left += 1
            else:
                won[num_won, 0] = span
                won[num_won, 1] = best
                won[num_won, 2] = best_reach
                num_won += 1
        for place in range(num_won):
            region[won[place, 0]] = won[place, 1]
            reach[won[place, 0]] = won[place, 2]
        count = left
        if num_won == 0 or count == 0:
            break
    return count


@njit(**INNER)
def _flood(
    links: np.ndarray,
    distance: np.ndarray,
    region: np.ndarray,
    reach: np.ndarray,
    seed: int,
    level: int,
    own: int,
    stack: np.ndarray,
) -> bool:
    """Start region ``own`` at a seed and fill spans at ``level`` or deeper; return whether it filled any."""
    stack[0] = seed
    depth = 1
    region[seed] = own
    reach[seed] = 0
    filled = 0
    while depth > 0:
        depth -= 1
        span = stack[depth]
        touches = False
        for direction in range(4):
            beside = links[span, direction]
            if beside < 0:
                continue
            diagonal = links[beside, (direction + 1) & 3]
            other = region[beside]
            corner = region[diagonal] if diagonal >= 0 else SOLID
            if (other != SOLID and other != own) or (corner != SOLID and corner != own):
                touches = True
                break
        if touches:
            region[span] = SOLID
            continue
        filled += 1
        for direction in range(4):
            beside = links[span, direction]
            if beside >= 0 and distance[beside] >= level and region[beside] == SOLID:
                region[beside] = own
                reach[beside] = 0
                stack[depth] = beside
                depth += 1
    return filled > 0


@njit(**INNER)
def _sorted_by_depth(distance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort spans by their distance [S] in whole cells, then by number.

    Returns:
        The first span of every depth [D + 1] int64, and the spans [S] int32.
    """
    start = np.zeros((distance.max() >> 1) + 2, np.int64)
    for span in range(len(distance)):
        start[(distance[span] >> 1) + 1] += 1
    for depth in range(1, len(start)):
        start[depth] += start[depth - 1]
    place = start[:-1].copy()
    spans = np.empty(len(distance), np.int32)
    for span in range(len(distance)):
        depth = distance[span] >> 1
        spans[place[depth]] = span
        place[depth] += 1
    return start, spans


@njit(**INNER)
def _join(todo: np.ndarray, count: int, more: np.ndarray, region: np.ndarray) -> int:
    """Add the spans of ``more`` to ``todo[:count]``, drop spans that have a region, and return the new count.

    Both arrays are sorted in ascending order, and so is the result.
    """
    kept = 0
    for place in range(count):
        if region[todo[place]] == SOLID:
            todo[kept] = todo[place]
            kept += 1
    joining = more[region[more] == SOLID]
    total = kept + len(joining)
    last = len(joining) - 1
    write = total - 1
    while last >= 0:
        if kept > 0 and todo[kept - 1] > joining[last]:
            kept -= 1
            todo[write] = todo[kept]
        else:
            todo[write] = joining[last]
            last -= 1
        write -= 1
    return total


@njit(**ENTRY)
def watershed(links: np.ndarray, distance: np.ndarray) -> tuple[np.ndarray, int]:
    """Divide spans into regions: basins of the distance field grow from its peaks down.

    ``distance`` [S] int32 is that of `boundary_distance`.

    Returns:
        The region of every span [S] int32, numbered from 1, and the number of regions including SOLID.
    """
    distance = _blur(links, distance)
    region = np.zeros(len(links), np.int32)
    reach = np.zeros(len(links), np.int32)
    todo = np.empty(len(links), np.int32)
    stack = np.empty(4 * len(links) + 1, np.int32)
    start, by_depth = _sorted_by_depth(distance)
    depth = len(start) - 2  # of the deepest spans that are not in todo yet
    number = to_int64(1)
    count = to_int64(0)
    level = (distance.max() + 1) & ~1
    while level > 0:
        level = max(level - 2, 0)
        count = _join(todo, count, by_depth[:0], region)
        while 2 * depth >= level:
            count = _join(todo, count, by_depth[start[depth] : start[depth + 1]], region)
            depth -= 1
        count = _expand(links, region, reach, todo, count, EXPANSIONS if level > 0 else len(links))
        for place in range(count):
            if region[todo[place]] == SOLID and _flood(
                links, distance, region, reach, todo[place], max(level - 2, 0), number, stack
            ):
                number += 1
    count = to_int64(0)
    for span in range(len(links)):
        if region[span] == SOLID:
            todo[count] = span
            count += 1
    _expand(links, region, reach, todo, count, len(links))
    return region, number


@njit(**ENTRY)
def region_rings(links: np.ndarray, region: np.ndarray, num_regions: int) -> tuple[np.ndarray, np.ndarray]:
    """List the regions adjacent to every region, in order along its boundary.

    Returns:
        start [num_regions + 1] int64 and the adjacent regions, SOLID for a wall. For a region that encloses others only
        the boundary that its first span lies on is listed.
    """
    first = np.full(num_regions, -1, np.int64)
    num_edges = 0
    for span in range(len(links) - 1, -1, -1):
        for direction in range(4):
            beside = links[span, direction]
            if (region[beside] if beside >= 0 else SOLID) != region[span]:
                first[region[span]] = span
                num_edges += 1
    start = np.zeros(num_regions + 1, np.int64)
    met = np.empty(num_edges, np.int32)
    count = 0
    for own in range(1, num_regions):
        start[own] = count
        if first[own] < 0:
            continue
        span = first[own]
        direction = 0
        while links[span, direction] >= 0 and region[links[span, direction]] == own:
            direction += 1
        begin_span = span
        begin_direction = direction
        while True:
            beside = links[span, direction]
            other = region[beside] if beside >= 0 else SOLID
            if other != own:
                if count == start[own] or met[count - 1] != other:
                    met[count] = other
                    count += 1
                direction = (direction + 1) & 3
            else:
                span = beside
                direction = (direction + 3) & 3
            if span == begin_span and direction == begin_direction:
                break
        if count - start[own] > 1 and met[count - 1] == met[start[own]]:
            count -= 1
    start[num_regions] = count
    return start, met[:count]


@dataclass(slots=True)
class _Region:
    """A region while small regions are being merged."""

    size: int
    ring: list[int]  # adjacent regions in order along the boundary, SOLID for walls
    above_below: set[int] = field(default_factory=set)  # regions with spans in the same columns
    overlaps_itself: bool = False

    def may_absorb(self, number: int) -> bool:
        """Return whether the merged region would be simple: one common border and no overlapping floors."""
        return self.ring.count(number) == 1 and number not in self.above_below


def merge_regions(
    region: np.ndarray, rings: list[list[int]], column: np.ndarray, min_area: float, merge_area: float
) -> np.ndarray:
    """Drop groups of connected regions that are too small, then merge small regions into neighbours.

    Args:
        region: [S] int32, region of every span.
        rings: The ring of each region; the first item is SOLID's and not used.
        column: [S], column of every span.
        min_area: Cells; groups of connected regions with fewer cells are dropped.
        merge_area: Cells; regions with fewer cells are merged into their smallest neighbour.

    Returns:
        [S] int32, new region of every span, numbered without gaps.
    """
    sizes = np.bincount(region, minlength=len(rings)).tolist()
    regions = {number: _Region(sizes[number], rings[number]) for number in range(1, len(rings)) if sizes[number]}
    _note_overlaps(regions, region, column)
    _drop_small_groups(regions, min_area)
    target = _merge_small(regions, merge_area)
    new_number = np.zeros(len(rings), np.int32)
    numbers = {into: place + 1 for place, into in enumerate(sorted(set(target.values())))}
    for number, into in target.items():
        new_number[number] = numbers[into]
    return new_number[region]


def _note_overlaps(regions: dict[int, _Region], region: np.ndarray, column: np.ndarray) -> None:
    """Record which regions have spans in the same columns, which are ascending."""
    above = 1
    rows = np.flatnonzero(column[1:] == column[:-1])
    while len(rows):
        lower = region[rows]
        upper = region[rows + above]
        keys = (lower.astype(np.int64) << 32 | upper)[(lower != SOLID) & (upper != SOLID)]
        keys = np.unique(keys[np.diff(keys, prepend=-1) != 0])  # most are equal to the one before
        for low, high in zip((keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist(), strict=True):
            if low == high:
                regions[low].overlaps_itself = True
            else:
                regions[low].above_below.add(high)
                regions[high].above_below.add(low)
        above += 1
        rows = rows[rows + above < len(column)]
        rows = rows[column[rows + above] == column[rows]]


def _drop_small_groups(regions: dict[int, _Region], min_area: float) -> None:
    visited: set[int] = set()
    for seed in list(regions):
        if seed in visited:
            continue
        visited.add(seed)
        group = [seed]
        total = 0
        for number in group:  # The list grows during the loop.
            total += regions[number].size
            for other in regions[number].ring:
                if other in regions and other not in visited:
                    visited.add(other)
                    group.append(other)
        if total < min_area:
            for number in group:
                del regions[number]


def _merge_small(regions: dict[int, _Region], merge_area: float) -> dict[int, int]:
    """Merge small regions until nothing changes; return the final region of every region."""
    target = {number: number for number in regions}
    met_by: dict[int, set[int]] = {number: set() for number in regions}  # regions whose rings contain it
    for number, one in regions.items():
        for met in one.ring:
            met_by.setdefault(met, set()).add(number)
    merged = True
    while merged:
        merged = False
        for number in list(regions):
            own = regions[number]
            # A region without a wall is enclosed by others and is merged whatever its size.
            if own.overlaps_itself or (own.size > merge_area and SOLID in own.ring):
                continue
            fitting = [
                (regions[other].size, place, other)
                for place, other in enumerate(own.ring)
                if other in regions
                and other != number
                and not regions[other].overlaps_itself
                and own.may_absorb(other)
                and regions[other].may_absorb(number)
            ]
            if not fitting:
                continue
            into = min(fitting)[2]
            _absorb(regions, met_by, into, number)
            target[number] = into
            merged = True
    for number in target:
        end = target[number]
        while end != target[end]:
            end = target[end]
        target[number] = end
    return target


def _absorb(regions: dict[int, _Region], met_by: dict[int, set[int]], into: int, number: int) -> None:
    """Merge region ``number`` into another, and update the regions adjacent to it or above or below it."""
    kept = regions[into]
    gone = regions.pop(number)
    here = kept.ring.index(number)
    there = gone.ring.index(into)
    ring = kept.ring[here + 1 :] + kept.ring[:here] + gone.ring[there + 1 :] + gone.ring[:there]
    kept.ring = _without_repeats(ring)
    kept.size += gone.size
    for met in gone.ring:
        met_by[met].add(into)
    kept.above_below |= gone.above_below
    for other in gone.above_below & regions.keys():
        regions[other].above_below.discard(number)
        regions[other].above_below.add(into)
    for other in met_by.pop(number) & regions.keys():
        regions[other].ring = _without_repeats([into if met == number else met for met in regions[other].ring])
        met_by[into].add(other)


def _without_repeats(ring: list[int]) -> list[int]:
    """Return a ring without the entries that equal the one before them."""
    return [met for place, met in enumerate(ring) if met != ring[place - 1]] or ring[:1]
