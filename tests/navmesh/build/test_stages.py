"""The builder's stages, each against a slow twin or the property that defines it, on small random plans."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gym_batchnav.navmesh.build import contours, polygons, regions, voxel
from gym_batchnav.navmesh.build.voxel import OPEN_SKY

WIDTH = 6
DEPTH = 5
HEIGHT = 4
CLIMB = 1
PLANS = arrays(np.int64, (DEPTH, WIDTH), elements=st.integers(0, 4))  # 0 is a hole, else the floor's height
LARGE_PLANS = arrays(np.bool_, (9, 11), elements=st.sampled_from([True, True, True, False]))
quick = settings(max_examples=25, deadline=None)


def open_spans(plan: np.ndarray) -> voxel.OpenSpans:
    """The open spans of a plan of heights, under the sky."""
    column = np.flatnonzero(plan.reshape(-1)).astype(np.int32)
    start = np.concatenate([[0], np.cumsum(plan.reshape(-1) > 0)]).astype(np.int32)
    floor = plan.reshape(-1)[column].astype(np.int16)
    return voxel.OpenSpans(start, column, floor, np.full(len(column), OPEN_SKY, np.int32))


def linked(plan: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links, column and floor of a plan."""
    spans = open_spans(plan)
    return voxel.link(spans, plan.shape[1], HEIGHT, CLIMB), spans.column, spans.floor


STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # x and z of directions 0 to 3
Columns = dict[tuple[int, int], list[tuple[int, int, bool]]]  # spans (bottom, top, walkable) by (x, z), lowest first


def twin_rasterise(boxes: list[tuple[int, int, int, bool]], height_of: dict[int, int]) -> Columns:
    """Merge the voxel runs (x, z, bottom, walkable) of height ``height_of[index]`` that overlap or touch."""
    columns: Columns = {}
    for index, (x, z, bottom, walkable) in enumerate(boxes):
        new = (bottom, bottom + height_of[index], walkable)
        apart = []
        for span in columns.get((x, z), []):
            if span[1] < new[0] or span[0] > new[1]:
                apart.append(span)
            else:
                new = (min(span[0], new[0]), max(span[1], new[1]), span[2] or new[2])
        columns[x, z] = sorted([*apart, new])
    return columns


def twin_links(floors: list[tuple[int, int, int, int]], height: int, climb: int) -> np.ndarray:
    """Neighbours [S, 4] of open spans (x, z, floor, ceiling), listed column by column and lowest first."""
    found = np.full((len(floors), 4), -1, np.int32)
    for here, (x, z, floor, ceiling) in enumerate(floors):
        for direction, (dx, dz) in enumerate(STEPS):
            for there, (other_x, other_z, other_floor, other_ceiling) in enumerate(floors):
                if (other_x, other_z) != (x + dx, z + dz) or found[here, direction] >= 0:
                    continue
                room = min(ceiling, other_ceiling) - max(floor, other_floor)
                if room >= height and abs(other_floor - floor) <= climb:
                    found[here, direction] = there
    return found


def twin_boundary_distance(links: np.ndarray) -> np.ndarray:
    """Relax straight steps (2) and diagonal ones (3) until nothing changes."""
    distance = np.where((links < 0).any(axis=1), 0, 2**30)
    changed = True
    while changed:
        changed = False
        for span in range(len(links)):
            for direction in range(4):
                beside = links[span, direction]
                if beside < 0:
                    continue
                reach = [(beside, 2)]
                reach += [(links[beside, turn], 3) for turn in ((direction + 1) % 4, (direction + 3) % 4)]
                for other, cost in reach:
                    if other >= 0 and distance[other] + cost < distance[span]:
                        distance[span] = distance[other] + cost
                        changed = True
    return distance


def border_length(links: np.ndarray, region: np.ndarray) -> dict[int, int]:
    """Cell edges between every region and all others."""
    length: dict[int, int] = {}
    for span, own in enumerate(region.tolist()):
        if own:
            across = [region[beside] if beside >= 0 else 0 for beside in links[span]]
            length[own] = length.get(own, 0) + sum(other != own for other in across)
    return length


def area(ring: np.ndarray) -> int:
    """Twice the signed area of a ring of integer points [N, 3], seen from above."""
    x = ring[:, 0].astype(int)
    z = ring[:, 2].astype(int)
    return int((x * np.roll(z, -1) - np.roll(x, -1) * z).sum())


def largest_error(points: np.ndarray, kept: np.ndarray) -> float:
    """Farthest distance, in cells, of a closed border's points [N, 2] from the outline of its kept rows."""
    worst = 0.0
    for k, first in enumerate(kept):
        last = kept[(k + 1) % len(kept)]
        row = first
        while row != last:
            a = points[first].astype(float)
            b = points[last].astype(float)
            p = points[row].astype(float)
            share = np.clip((p - a) @ (b - a) / max((b - a) @ (b - a), 1e-9), 0, 1)
            worst = max(worst, float(np.linalg.norm(a + share * (b - a) - p)))
            row = (row + 1) % len(points)
    return worst


@quick
@given(
    boxes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9), st.booleans()), min_size=1, max_size=30
    )
)
def test_triangles_become_the_spans_of_the_twin(boxes: list[tuple[int, int, int, bool]]) -> None:
    """A triangle well inside one voxel column fills one voxel of it."""
    corners = np.array([[0.2, 0.3, 0.2], [0.2, 0.3, 0.8], [0.8, 0.7, 0.2]])
    points = np.concatenate([np.add(corners, (x, bottom, z)) for x, z, bottom, _ in boxes]).astype(np.float32)
    triangles = np.arange(len(points)).reshape(-1, 3)
    walkable = np.array([flat for *_, flat in boxes])
    one = np.float32(1)
    head, spans, count = voxel.rasterise(points, triangles, walkable, one, one, 4, 3, 1000, 0)
    assert count >= 0
    start, bottom, top, flat = voxel.flatten(head, spans)
    twin = twin_rasterise(boxes, dict.fromkeys(range(len(boxes)), 1))
    for column in range(12):
        here = slice(start[column], start[column + 1])
        got = list(zip(bottom[here].tolist(), top[here].tolist(), flat[here].tolist(), strict=True))
        assert got == twin.get((column % 4, column // 4), [])


def test_rasterising_stops_at_its_limit() -> None:
    points = np.array([[0, 0, 0], [0, 0, 9], [9, 0, 9]], np.float32)
    one = np.float32(1)
    arguments = (points, np.array([[0, 1, 2]]), np.array([True]), one, one, 9, 9)
    needed = voxel.rasterise(*arguments, 10_000, 0)[-1]  # of which memory for 64 is reserved at once
    assert 45 <= needed <= 81
    assert voxel.rasterise(*arguments, needed - 1, 100)[-1] == -1
    assert voxel.rasterise(*arguments, needed, 100)[-1] == needed


@quick
@given(plan=PLANS, roof=PLANS)
def test_links_are_those_of_the_twin(plan: np.ndarray, roof: np.ndarray) -> None:
    spans = open_spans(plan)
    _, column, floor, ceiling = spans
    low = roof.reshape(-1)[column] > 0
    ceiling[low] = floor[low] + 2 + roof.reshape(-1)[column][low].astype(np.int32)
    got = voxel.link(spans, WIDTH, HEIGHT, CLIMB)
    rows = list(
        zip((column % WIDTH).tolist(), (column // WIDTH).tolist(), floor.tolist(), ceiling.tolist(), strict=True)
    )
    np.testing.assert_array_equal(got, twin_links(rows, HEIGHT, CLIMB))


@quick
@given(plan=LARGE_PLANS)
def test_the_distance_to_the_boundary_is_the_shortest(plan: np.ndarray) -> None:
    links, _, _ = linked(plan.astype(np.int64))
    np.testing.assert_array_equal(voxel.boundary_distance(links), twin_boundary_distance(links))


@quick
@given(plan=LARGE_PLANS)
def test_regions_cover_every_span_and_are_connected(plan: np.ndarray) -> None:
    links, _, _ = linked(plan.astype(np.int64))
    if not len(links):
        return
    region, count = regions.watershed(links, voxel.boundary_distance(links))
    assert region.min() >= 0 and region.max() < count
    for number in range(1, count):
        members = set(np.flatnonzero(region == number).tolist())
        if members:
            reached = set()
            stack = [min(members)]
            while stack:
                span = stack.pop()
                if span in members and span not in reached:
                    reached.add(span)
                    stack += links[span].tolist()
            assert reached == members, number


@quick
@given(plan=LARGE_PLANS)
def test_borders_have_the_length_and_area_of_their_regions(plan: np.ndarray) -> None:
    links, column, floor = linked(plan.astype(np.int64))
    if not len(links):
        return
    region, _ = regions.watershed(links, voxel.boundary_distance(links))
    points, start, owner = contours.trace(links, floor, column, region, plan.shape[1])
    length: dict[int, int] = {}
    doubled: dict[int, int] = {}
    for border, own in enumerate(owner.tolist()):
        ring = points[start[border] : start[border + 1]]
        length[own] = length.get(own, 0) + len(ring)
        doubled[own] = doubled.get(own, 0) + area(ring)
    assert length == border_length(links, region)
    assert doubled == {own: -2 * int((region == own).sum()) for own in doubled}


@quick
@given(plan=LARGE_PLANS, max_error=st.sampled_from([0.5, 1.3, 3.0]))
def test_simplified_borders_stay_within_their_error(plan: np.ndarray, max_error: float) -> None:
    links, column, floor = linked(plan.astype(np.int64))
    if not len(links):
        return
    points, start, _ = contours.trace(links, floor, column, np.ones(len(links), np.int32), plan.shape[1])
    for border in range(len(start) - 1):
        traced = points[start[border] : start[border + 1]]
        kept = np.empty(len(traced) + 2, np.int64)
        count = contours.simplify(traced, np.float32(max_error), 0, kept)
        assert largest_error(traced[:, ::2], kept[:count]) <= max_error + 1e-5


@quick
@given(plan=LARGE_PLANS, limit=st.integers(3, 6))
def test_polygons_are_convex_and_cover_the_outline(plan: np.ndarray, limit: int) -> None:
    links, column, floor = linked(plan.astype(np.int64))
    if not len(links):
        return
    points, start, _ = contours.trace(links, floor, column, np.ones(len(links), np.int32), plan.shape[1])
    for border in range(len(start) - 1):
        ring = np.ascontiguousarray(points[start[border] : start[border + 1], :3])
        places = {tuple(point) for point in ring[:, ::2].tolist()}
        if area(ring) >= 0 or len(places) < len(ring):
            continue  # a hole, or an outline that touches itself
        rows = polygons.polygonise(ring, np.arange(len(ring)), limit)
        total = 0
        for row in rows:
            corners = ring[row[row >= 0]]
            assert 3 <= len(corners) <= limit
            for k in range(len(corners)):
                assert contours.turn.py_func(corners[k - 1], corners[k], corners[(k + 1) % len(corners)]) <= 0
            total += area(corners)
        assert total == area(ring)


@quick
@given(numbers=arrays(np.int32, 60, elements=st.integers(0, 5)), height=st.integers(1, 6))
def test_overlapping_regions_are_those_of_the_twin(numbers: np.ndarray, height: int) -> None:
    column = np.arange(60) // height
    twin = {
        (int(numbers[low]), int(numbers[high]))
        for low in range(60)
        for high in range(low + 1, 60)
        if column[low] == column[high] and numbers[low] != regions.SOLID and numbers[high] != regions.SOLID
    }
    keys = regions._overlapping_pairs(numbers.astype(np.int64), column).tolist()
    assert len(keys) == len(twin)
    assert {(key >> 32, key & 0xFFFFFFFF) for key in keys} == twin
