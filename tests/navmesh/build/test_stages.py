"""The builder's stages, each against a slow twin or the property that defines it, on small random inputs."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import lil_array
from scipy.sparse.csgraph import dijkstra

from gym_batchnav.navmesh.build import contours, detail, voxel

WIDTH = 9
DEPTH = 8
HEIGHT = 4
SKY = 10**6
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # x and z of directions 0 to 3
PLANS = arrays(np.bool_, (9, 11), elements=st.sampled_from([True, True, True, False]))
quick = settings(max_examples=25, deadline=None)

Span = tuple[int, int, bool]  # bottom, top, walkable


def random_columns(seed: int) -> list[list[Span]]:
    """Spans of every column, lowest first; those of a column do not touch."""
    rng = np.random.default_rng(seed)
    columns: list[list[Span]] = []
    for _ in range(WIDTH * DEPTH):
        columns.append([])
        height = 0
        for _ in range(rng.integers(0, 7)):
            bottom = height + int(rng.integers(1, 6))
            height = bottom + int(rng.integers(1, 3))
            columns[-1].append((bottom, height, bool(rng.random() < 0.6)))
    return columns


def solid(columns: list[list[Span]]) -> voxel.SolidSpans:
    spans = [span for column in columns for span in column]
    return voxel.SolidSpans(
        np.cumsum([0, *map(len, columns)]).astype(np.int32),
        np.array([bottom for bottom, _, _ in spans], np.int16),
        np.array([top for _, top, _ in spans], np.int16),
        np.array([walkable for *_, walkable in spans], np.bool_),
    )


def twin_low_hanging(columns: list[list[Span]], climb: int) -> list[bool]:
    """Whether each span is walkable, or lies at most ``climb`` over the walkable span beneath."""
    found = []
    for column in columns:
        for place, (_, top, walkable) in enumerate(column):
            beneath = column[place - 1] if place else (0, 0, False)
            found.append(walkable or (beneath[2] and top - beneath[1] <= climb))
    return found


def gaps(column: list[Span]) -> list[tuple[int, int]]:
    """Floor and ceiling of every gap of a column, that beneath its lowest span included."""
    return list(zip([-SKY, *(top for _, top, _ in column)], [*(bottom for bottom, *_ in column), SKY], strict=True))


def twin_ledges(columns: list[list[Span]], climb: int) -> list[bool]:
    """Whether each span is walkable and neither beside a drop nor on a steep slope."""
    found = []
    for index, column in enumerate(columns):
        x = index % WIDTH
        z = index // WIDTH
        for place, (_, floor, walkable) in enumerate(column):
            ceiling = gaps(column)[place + 1][1]
            rises = []
            for dx, dz in STEPS:
                if not (0 <= x + dx < WIDTH and 0 <= z + dz < DEPTH):
                    rises.append(-SKY)
                    continue
                for other_floor, other_ceiling in gaps(columns[(z + dz) * WIDTH + x + dx]):
                    if min(ceiling, other_ceiling) - max(floor, other_floor) >= HEIGHT:
                        rises.append(other_floor - floor)
            steps = [0, *(rise for rise in rises if abs(rise) <= climb)]
            found.append(walkable and min(rises, default=0) >= -climb and max(steps) - min(steps) <= climb)
    return found


@given(seed=st.integers(0, 2**32 - 1), climb=st.integers(0, 4))
def test_span_filters_are_those_of_the_twins(seed: int, climb: int) -> None:
    spans = random_columns(seed)
    got = solid(spans)
    voxel.filter_low_hanging(got, climb)
    assert got.walkable.tolist() == twin_low_hanging(spans, climb)
    got = solid(spans)
    voxel.filter_ledges(got, WIDTH, HEIGHT, climb)
    assert got.walkable.tolist() == twin_ledges(spans, climb)


@given(seed=st.integers(0, 2**32 - 1), height=st.integers(0, 6))
def test_open_spans_are_those_with_room_above(seed: int, height: int) -> None:
    spans = random_columns(seed)
    twin = [
        (index, floor, ceiling)
        for index, column in enumerate(spans)
        for (_, _, walkable), (floor, ceiling) in zip(column, gaps(column)[1:], strict=True)
        if walkable and ceiling - floor >= height
    ]
    start, column, floor, ceiling = voxel.find_floors(solid(spans), height)
    ceiling = np.where(ceiling == voxel.OPEN_SKY, SKY, ceiling)
    assert list(zip(column.tolist(), floor.tolist(), ceiling.tolist(), strict=True)) == twin
    np.testing.assert_array_equal(start, np.searchsorted(column, np.arange(WIDTH * DEPTH + 1)))


Columns = dict[tuple[int, int], list[tuple[int, int, bool]]]  # spans (bottom, top, walkable) by (x, z), lowest first


def twin_rasterise(boxes: list[tuple[int, int, int, bool]]) -> Columns:
    """Merge the voxel runs (x, z, bottom, walkable) of height 1 that overlap or touch."""
    columns: Columns = {}
    for x, z, bottom, walkable in boxes:
        new = (bottom, bottom + 1, walkable)
        apart = []
        for span in columns.get((x, z), []):
            if span[1] < new[0] or span[0] > new[1]:
                apart.append(span)
            else:
                new = (min(span[0], new[0]), max(span[1], new[1]), span[2] or new[2])
        columns[x, z] = sorted([*apart, new])
    return columns


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
    twin = twin_rasterise(boxes)
    for column in range(12):
        here = slice(start[column], start[column + 1])
        got = list(zip(bottom[here].tolist(), top[here].tolist(), flat[here].tolist(), strict=True))
        assert got == twin.get((column % 4, column // 4), [])


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
    """The shortest way from a span with a missing neighbour, by straight steps (2) and diagonal ones (3)."""
    steps = []
    for direction in range(4):
        beside = [(span, links[span, direction]) for span in np.flatnonzero(links[:, direction] >= 0)]
        steps += [(there, span, 2) for span, there in beside]
        for turn in ((direction + 1) % 4, (direction + 3) % 4):
            steps += [(links[there, turn], span, 3) for span, there in beside if links[there, turn] >= 0]
    graph = lil_array((len(links), len(links)))
    for source, span, cost in steps:
        graph[source, span] = cost
    return dijkstra(graph.tocsr(), indices=np.flatnonzero((links < 0).any(axis=1)), min_only=True)


def links_of(plan: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Links and columns of the open spans of a plan."""
    spans = voxel.find_floors(solid([[(0, 1, True)] if free else [] for free in plan.ravel().tolist()]), HEIGHT)
    return voxel.link(spans, plan.shape[1], HEIGHT, 1), spans.column


def borders(plan: np.ndarray) -> list[np.ndarray]:
    """The traced borders [N, 4] of a plan that is one region."""
    links, column = links_of(plan)
    floor = np.zeros(len(links), np.int16)
    points, start, _ = contours.trace(links, floor, column, np.ones(len(links), np.int32), plan.shape[1])
    return [points[first:last] for first, last in pairwise(start.tolist())]


def largest_error(points: np.ndarray, kept: np.ndarray) -> float:
    """Farthest distance, in cells, of a closed border's points [N, 2] from the outline of its kept rows."""
    worst = 0.0
    for first, last in pairwise([*kept.tolist(), kept[0] + len(points)]):
        a, b = points[first].astype(float), points[last % len(points)].astype(float)
        between = points[np.arange(first, last) % len(points)] - a
        share = np.clip(between @ (b - a) / max((b - a) @ (b - a), 1e-9), 0, 1)
        worst = max(worst, np.linalg.norm(share[:, None] * (b - a) - between, axis=1).max())
    return worst


@quick
@given(seed=st.integers(0, 2**32 - 1), climb=st.integers(0, HEIGHT))
def test_links_are_those_of_the_twin(seed: int, climb: int) -> None:
    spans = voxel.find_floors(solid(random_columns(seed)), 0)
    _, column, floor, ceiling = (one.tolist() for one in spans)
    rows = [(c % WIDTH, c // WIDTH, low, high) for c, low, high in zip(column, floor, ceiling, strict=True)]
    np.testing.assert_array_equal(voxel.link(spans, WIDTH, HEIGHT, climb), twin_links(rows, HEIGHT, climb))


@quick
@given(plan=PLANS)
def test_the_distance_to_the_boundary_is_the_shortest(plan: np.ndarray) -> None:
    links, _ = links_of(plan)
    np.testing.assert_array_equal(voxel.boundary_distance(links), twin_boundary_distance(links))


@quick
@given(plan=PLANS, max_error=st.sampled_from([0.5, 1.3, 3.0]))
def test_simplified_borders_stay_within_their_error(plan: np.ndarray, max_error: float) -> None:
    for traced in borders(plan):
        kept = np.empty(len(traced) + 2, np.int64)
        count = contours.simplify(traced, np.float32(max_error), 0, kept)
        assert largest_error(traced[:, ::2], kept[:count]) <= max_error + 1e-5


SIDE = 12
SPACING = 3.0
FLOORS = arrays(np.int16, (SIDE, SIDE), elements=st.integers(0, 5))


def twin_floor_near(heights: np.ndarray, holes: np.ndarray, x: float, z: float, expected: float) -> float:
    """The floor at a place or else in the nearest square ring of cells that has one, nearest to what is expected."""
    cx, cz = (min(max(int(np.floor(value + 0.01)), 0), SIDE - 1) for value in (x, z))
    cells = [(max(abs(i - cx), abs(k - cz)), k, i) for k in range(SIDE) for i in range(SIDE) if not holes[k, i]]
    for ring in range(3):
        found = [float(heights[k, i]) for away, k, i in cells if away == ring]
        if found:
            return min(found, key=lambda height: abs(height - expected))
    return expected


def twin_bends(heights: np.ndarray, most: float) -> set[int]:
    """Return the places where a line must bend to miss no height by more than ``most``, halved at the worst place."""
    straight = np.linspace(heights[0], heights[-1], len(heights))
    errors = np.abs(heights - straight)
    if len(heights) < 3 or errors[1:-1].max() <= most:
        return set()
    worst = 1 + int(errors[1:-1].argmax())
    right = {worst + bend for bend in twin_bends(heights[worst:], most)}
    return {worst} | twin_bends(heights[: worst + 1], most) | right


def height_at(points: np.ndarray, triangles: np.ndarray, x: float, z: float) -> float:
    for a, b, c in points[triangles]:
        share = np.linalg.solve(np.array([[a[0], b[0], c[0]], [a[2], b[2], c[2]], [1, 1, 1]]), [x, z, 1])
        if share.min() >= -1e-9:
            return float(share @ (a[1], b[1], c[1]))
    raise AssertionError(f"no triangle at {x}, {z}")


@settings(max_examples=15)
@given(heights=FLOORS, holes=arrays(np.bool_, (SIDE, SIDE), elements=st.sampled_from([False] * 5 + [True])))
def test_detail_triangles_follow_the_floor_and_are_delaunays(heights: np.ndarray, holes: np.ndarray) -> None:
    """A square polygon has the bends of the twin at its edges, empty circumcircles, and misses no place by far."""
    start = np.concatenate([[0], np.cumsum(~holes.ravel())]).astype(np.int32)
    floor = heights[~holes].astype(np.int16)
    floors = detail.Floors(start, floor, np.ones(len(floor), np.int32), SIDE)
    corners = np.array([[0, 2, 0], [0, 2, SIDE], [SIDE, 2, SIDE], [SIDE, 2, 0]], np.int32)
    polygons = np.array([[0, 1, 2, 3, -1, -1]], np.int32)
    added, faces, first = detail.triangulate_floors(
        corners, polygons, np.full((1, 6), -1, np.int32), np.ones(1, np.int32), floors, SPACING, 1.0
    )
    points = np.concatenate([corners, added])
    assert first.tolist() == [0, len(faces)]
    edges = []
    for a, b in pairwise([0, 1, 2, 3, 0]):
        a, b = sorted((a, b), key=lambda row: (corners[row][0], corners[row][2]))
        places = np.linspace(corners[a], corners[b], 6)  # five pieces of at most the spacing
        line = np.array([2.0, *(twin_floor_near(heights, holes, x, z, 2.0) for x, _, z in places[1:-1]), 2.0])
        edges += [(places[bend][0], line[bend], places[bend][2]) for bend in twin_bends(line, 1.0)]
    on_edge = [row for row in added.tolist() if {row[0], row[2]} & {0.0, float(SIDE)}]
    assert sorted(map(tuple, np.round(on_edge, 6).tolist())) == sorted(map(tuple, np.round(edges, 6).tolist()))

    total = 0.0
    for a, b, c in points[faces][:, :, ::2]:
        doubled = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        assert doubled < 0, "wound like the polygon"
        total -= doubled / 2
        center = np.linalg.solve(2 * np.array([b - a, c - a]), [b @ b - a @ a, c @ c - a @ a])
        assert (np.linalg.norm(points[:, ::2] - center, axis=1) >= np.linalg.norm(a - center) - 1e-6).all()
    assert np.isclose(total, SIDE * SIDE)

    inner = np.arange(SPACING, SIDE, SPACING)
    flat = np.array([[0, 1, 2], [0, 2, 3]])
    for x in inner:
        for z in inner:
            expected = twin_floor_near(heights, holes, x, z, height_at(points, flat, x, z))
            assert abs(height_at(points, faces, x, z) - expected) <= 1 + 1e-6
