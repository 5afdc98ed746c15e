"""Divide linked open spans into simple regions by a watershed, drop small ones and merge medium ones.

This re-creates Recast's rcBuildRegions: ``watershed`` its expandRegions and floodRegion on the blurred field of
rcBuildDistanceField (boxBlur), ``region_rings`` walkContour, ``merge_regions`` mergeAndFilterRegions. A *ring* lists
the regions met on a walk around a region; ``SOLID`` stands for a wall.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER

EXPANSIONS = 8  # rounds in which regions grow at every level before new ones are born
SOLID = 0  # the region of spans that belong to none


@njit(**INNER)
def _blur(links: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Smooth a distance field [S] over nine cells (boxBlur), which saves the watershed many tiny regions."""
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
    """Let regions grow into the spans ``todo[:count]``, at most ``rounds`` cells far; return how many are left.

    Arguments are ``links`` [S, 4], ``region`` [S], ``reach`` [S] (half cells from the seed's fill) and ``todo`` [S],
    all int32; the last three are written.
    """
    won = np.empty((count, 3), np.int32)
    for _ in range(rounds):
        left = num_won = 0
        for place in range(count):
            span = todo[place]
            best, best_reach = SOLID, 2**30
            for direction in range(4):
                beside = links[span, direction]
                if beside >= 0 and region[beside] != SOLID and reach[beside] + 2 < best_reach:
                    best, best_reach = region[beside], reach[beside] + 2
            if best == SOLID:
                todo[left] = span
                left += 1
            else:
                won[num_won, 0], won[num_won, 1], won[num_won, 2] = span, best, best_reach
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
    """Start region ``own`` at a seed and fill spans at ``level`` or deeper; return whether any span was filled."""
    stack[0] = seed
    depth = 1
    region[seed], reach[seed] = own, 0
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
                region[beside], reach[beside] = own, 0
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
    """Merge spans without a region into ``todo[:count]``, drop those that have one from it, and return the new count.

    Both are in ascending order, and so is the result.
    """
    kept = 0
    for place in range(count):
        if region[todo[place]] == SOLID:
            todo[kept] = todo[place]
            kept += 1
    joining = more[region[more] == SOLID]
    total = kept + len(joining)
    last, write = len(joining) - 1, total - 1
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

    Args:
        links: [S, 4] int32.
        distance: [S] int32, half cells to the boundary.

    Returns:
        Region of every span [S] int32, from 1, and the number of regions and of SOLID together.
    """
    distance = _blur(links, distance)
    region = np.zeros(len(links), np.int32)
    reach = np.zeros(len(links), np.int32)
    todo, stack = np.empty(len(links), np.int32), np.empty(4 * len(links) + 1, np.int32)
    start, by_depth = _sorted_by_depth(distance)
    depth = len(start) - 2  # of the deepest spans that are not among todo yet
    number, count = 1, 0
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
    count = 0
    for span in range(len(links)):
        if region[span] == SOLID:
            todo[count] = span
            count += 1
    _expand(links, region, reach, todo, count, len(links))
    return region, number


@njit(**ENTRY)
def region_rings(links: np.ndarray, region: np.ndarray, num_regions: int) -> tuple[np.ndarray, np.ndarray]:
    """Walk once around every region and note the regions met in order.

    Returns:
        start [num_regions + 1] int64 and the regions met, SOLID for a wall; a region that encloses others has only
        the ring that its first span lies on.
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
        span, direction = first[own], 0
        while links[span, direction] >= 0 and region[links[span, direction]] == own:
            direction += 1
        begin_span, begin_direction = span, direction
        while True:
            beside = links[span, direction]
            other = region[beside] if beside >= 0 else SOLID
            if other != own:
                if count == start[own] or met[count - 1] != other:
                    met[count] = other
                    count += 1
                direction = (direction + 1) & 3
            else:
                span, direction = beside, (direction + 3) & 3
            if span == begin_span and direction == begin_direction:
                break
        if count - start[own] > 1 and met[count - 1] == met[start[own]]:
            count -= 1
    start[num_regions] = count
    return start, met[:count]


class _Region:
    """A region while small ones are merged."""

    __slots__ = ("above_below", "overlaps_itself", "ring", "size")

    def __init__(self, size: int, ring: list[int]) -> None:
        self.size = size
        self.ring = ring  # regions met along the boundary, in order, SOLID for walls
        self.above_below: set[int] = set()  # regions with spans in the same columns
        self.overlaps_itself = False

    def may_absorb(self, number: int) -> bool:
        """Whether a merger would stay simple: one common border, and no floor over another."""
        return self.ring.count(number) == 1 and number not in self.above_below


def merge_regions(
    region: np.ndarray, rings: list[list[int]], column: np.ndarray, min_area: float, merge_area: float
) -> np.ndarray:
    """Drop groups of connected regions that are too small, then merge small regions into neighbours.

    Args:
        region: [S] int32, region of every span.
        rings: Regions met around each region, first one for SOLID.
        column: [S], column of every span.
        min_area: Cells; a group of regions of fewer is dropped.
        merge_area: Cells; regions of fewer are merged into their smallest neighbour.

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
    """Note which regions have spans in the same columns."""
    keys = _overlapping_pairs(region, column)
    for low, high in zip((keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist(), strict=True):
        if low == high:
            regions[low].overlaps_itself = True
        else:
            regions[low].above_below.add(high)
            regions[high].above_below.add(low)


@njit(**ENTRY)
def _overlapping_pairs(region: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return every pair of regions, ``lower << 32 | upper``, of which one has a span over the other: [n] int64, once.

    The pairs are kept in a hash table with linear probing (Knuth, The Art of Computer Programming 3, algorithm 6.4L).

    Args:
        region: [S] int, region of every span.
        column: [S] int, column of every span, ascending.
    """
    table = np.full(1 << 12, -1, np.int64)
    count = 0
    for lower in range(len(column)):
        upper = lower + 1
        while upper < len(column) and column[upper] == column[lower]:
            if region[lower] != SOLID and region[upper] != SOLID:
                count += _keep(table, np.int64(region[lower]) << 32 | region[upper])
                if 2 * count > len(table):
                    larger = np.full(2 * len(table), -1, np.int64)
                    for key in table[table >= 0]:
                        _keep(larger, key)
                    table = larger
            upper += 1
    return table[table >= 0]


@njit(**INNER)
def _keep(table: np.ndarray, key: int) -> int:
    """Put a key into a hash table whose length is a power of two; return 1 if it is new, else 0."""
    last = len(table) - 1
    place = ((key >> 32) * 73856093 ^ (key & 0xFFFFFFFF) * 19349663) & last
    while table[place] >= 0 and table[place] != key:
        place = (place + 1) & last
    is_new = table[place] < 0
    table[place] = key
    return int(is_new)


def _drop_small_groups(regions: dict[int, _Region], min_area: float) -> None:
    visited: set[int] = set()
    for seed in list(regions):
        if seed in visited:
            continue
        visited.add(seed)
        group, total = [seed], 0
        for number in group:  # The list grows while it is walked.
            total += regions[number].size
            for other in regions[number].ring:
                if other in regions and other not in visited:
                    visited.add(other)
                    group.append(other)
        if total < min_area:
            for number in group:
                del regions[number]


def _merge_small(regions: dict[int, _Region], merge_area: float) -> dict[int, int]:
    """Merge until nothing changes; return the region that every region ends up in."""
    target = {number: number for number in regions}
    met_by: dict[int, set[int]] = {number: set() for number in regions}  # regions whose ring names it
    for number, one in regions.items():
        for met in one.ring:
            met_by.setdefault(met, set()).add(number)
    merged = True
    while merged:
        merged = False
        for number in list(regions):
            own = regions[number]
            # A region without a wall is inside of others and merges whatever its size.
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
    """Merge region ``number`` into another; only regions that name it in ``met_by`` or lie over it are changed."""
    kept, gone = regions[into], regions.pop(number)
    here, there = kept.ring.index(number), gone.ring.index(into)
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
    """A ring without the entries that equal the one before them."""
    return [met for place, met in enumerate(ring) if met != ring[place - 1]] or ring[:1]
