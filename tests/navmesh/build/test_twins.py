"""Stages of the builder against slow, obvious twins: span filters, merging of regions, holes and the detail mesh."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gym_batchnav.navmesh.build import contours, detail, regions, voxel

WIDTH = 9
DEPTH = 8
HEIGHT = 4
SKY = 10**6
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # x and z of directions 0 to 3
PLANS = arrays(np.bool_, (9, 11), elements=st.sampled_from([True, True, True, False]))

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
    np.testing.assert_array_equal(start, voxel.column_starts(column, WIDTH * DEPTH))


@given(links=arrays(np.int32, (12, 4), elements=st.integers(-1, 11)), kept=arrays(np.bool_, 12))
def test_kept_spans_are_linked_as_before(links: np.ndarray, kept: np.ndarray) -> None:
    rows = np.flatnonzero(kept).tolist()
    twin = [[rows.index(beside) if beside in rows else -1 for beside in links[row].tolist()] for row in rows]
    assert voxel.keep_spans(links.copy(), kept).tolist() == twin


def two_storeys(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links, columns and storeys of the open spans of two plans, one far above the other."""
    columns = [
        [*([(0, 1, True)] if low else []), *([(50, 51, True)] if high else [])]
        for low, high in zip(lower.ravel().tolist(), upper.ravel().tolist(), strict=True)
    ]
    spans = voxel.find_floors(solid(columns), HEIGHT)
    return voxel.link(spans, lower.shape[1], HEIGHT, 1), spans.column, spans.floor > 10


def twin_merge(
    region: np.ndarray, rings: list[list[int]], column: np.ndarray, min_area: float, merge_area: float
) -> np.ndarray:
    """Drop and merge regions as ``merge_regions`` does, looking at all spans and all rings again after every step."""
    label = region.copy()
    rings = [list(ring) for ring in rings]

    def size(number: int) -> int:
        return int((label == number).sum())

    def overlap(one: int, other: int) -> bool:
        """Whether a span of one region shares a column with another span, of the other region."""
        counts = [np.bincount(column[label == number], minlength=column.max() + 1) for number in (one, other)]
        return bool((counts[0] > 1).any() if one == other else (counts[0] * counts[1]).any())

    def tidy(ring: list[int]) -> list[int]:
        return [met for place, met in enumerate(ring) if met != ring[place - 1]] or ring[:1]

    alive = [number for number in range(1, len(rings)) if size(number)]
    group = {number: {number} for number in alive}
    sizes: list[int] = []
    while sizes != (sizes := [len(members) for members in group.values()]):
        for one in alive:
            group[one] = group[one].union(*(group[other] for other in rings[one] if other in group))
    seen: set[int] = set()
    for seed in list(alive):  # groups are those that can be reached along rings from their lowest number
        if seed not in seen:
            members = group[seed] - seen
            seen |= members
            if sum(map(size, members)) < min_area:
                alive = [number for number in alive if number not in members]
    label[~np.isin(label, alive)] = 0
    tangled = {number for number in alive if overlap(number, number)}
    changed = True
    while changed:
        changed = False
        for number in list(alive):
            if number in tangled or (size(number) > merge_area and 0 in rings[number]):
                continue
            fitting = [
                (size(other), place, other)
                for place, other in enumerate(rings[number])
                if other in alive and other != number and other not in tangled and not overlap(number, other)
                and rings[number].count(other) == 1 and rings[other].count(number) == 1
            ]  # fmt: skip
            if not fitting:
                continue
            into = min(fitting)[2]
            here = rings[into].index(number)
            there = rings[number].index(into)
            joined = rings[into][here + 1 :] + rings[into][:here] + rings[number][there + 1 :] + rings[number][:there]
            rings[into] = tidy(joined)
            label[label == number] = into
            alive.remove(number)
            for other in alive:
                rings[other] = tidy([into if met == number else met for met in rings[other]])
            changed = True
    return np.where(label > 0, np.searchsorted(alive, label) + 1, 0)


@settings(max_examples=20)
@given(
    lower=PLANS,
    upper=PLANS,
    block=st.integers(1, 4),
    min_area=st.sampled_from([0, 3, 12]),
    merge_area=st.sampled_from([0, 5, 20, 200]),
)
def test_regions_are_merged_as_by_the_twin(
    lower: np.ndarray, upper: np.ndarray, block: int, min_area: float, merge_area: float
) -> None:
    links, column, above = two_storeys(lower, upper)
    if not len(links):
        return
    x = column % 11
    z = column // 11
    _, region = np.unique(x // block + 20 * (z // block) + 1000 * above, return_inverse=True)
    region = (region + 1).astype(np.int32)
    start, met = regions.region_rings(links, region, region.max() + 1)
    rings = [ring.tolist() for ring in np.split(met, start[1:-1])]
    assert rings[0] == []
    got = regions.merge_regions(region, rings, column, min_area, merge_area)
    np.testing.assert_array_equal(got, twin_merge(region, rings, column, min_area, merge_area))


Place = tuple[int, int]  # x and z


def cross(a: Place, b: Place, c: Place) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def meet(a: Place, b: Place, c: Place, d: Place) -> bool:
    """Whether the segments ab and cd have a point in common."""
    sides = [np.sign(cross(a, b, c)), np.sign(cross(a, b, d)), np.sign(cross(c, d, a)), np.sign(cross(c, d, b))]
    if sides[0] != sides[1] and sides[2] != sides[3]:
        return True
    boxes = all(max(a[k], b[k]) >= min(c[k], d[k]) and max(c[k], d[k]) >= min(a[k], b[k]) for k in (0, 1))
    return boxes and not any(sides)


def starts_inside(ring: list[Place], row: int, to: Place) -> bool:
    """Whether the way from a vertex of an outline to a place begins strictly inside, which is to the right."""
    here = ring[row]
    before = ring[row - 1]
    after = ring[(row + 1) % len(ring)]
    angle = [np.arctan2(place[1] - here[1], place[0] - here[0]) for place in (before, after, to)]
    return 1e-9 < (angle[1] - angle[2]) % (2 * np.pi) < (angle[1] - angle[0]) % (2 * np.pi) - 1e-9


def twin_bridge(outline: list[Place], holes: list[list[Place]], hole: int) -> tuple[int, int]:
    """The nearest vertex of the outline that the first possible vertex of a hole sees, counted from its leftmost."""
    edges = [edge for ring in (outline, *holes) for edge in pairwise([*ring, ring[0]])]
    own = holes[hole]
    left = own.index(min(own))
    for turned in range(len(own)):
        place = own[(left + turned) % len(own)]
        seen = [
            ((corner[0] - place[0]) ** 2 + (corner[1] - place[1]) ** 2, row)
            for row, corner in enumerate(outline)
            if starts_inside(outline, row, place)
            and not any(meet(corner, place, *edge) for edge in edges if corner not in edge and place not in edge)
        ]
        if seen:
            return min(seen)[1], (left + turned) % len(own)
    return -1, -1


def doubled_area(ring: np.ndarray) -> int:
    x = ring[:, 0].astype(int)
    z = ring[:, 2].astype(int)
    return int((x * np.roll(z, -1) - np.roll(x, -1) * z).sum())


@given(plan=PLANS)
def test_holes_are_joined_by_the_bridges_of_the_twin(plan: np.ndarray) -> None:
    plan[0] = plan[-1] = plan[:, 0] = plan[:, -1] = True  # so that the first outline is around all holes
    links, column, _ = two_storeys(plan, np.zeros_like(plan))
    floor = np.zeros(len(column), np.int16)
    region = np.ones(len(column), np.int32)
    points, start, _ = contours.trace(links, floor, column, region, 11)
    rings = [np.ascontiguousarray(points[first:last, :3]) for first, last in pairwise(start.tolist())]
    outline = next(ring for ring in rings if doubled_area(ring) < 0)
    holes = [ring for ring in rings if doubled_area(ring) > 0]
    if not holes:
        return
    places = [[(x, z) for x, _, z in ring.tolist()] for ring in holes]
    hole_start = np.cumsum([0, *map(len, holes)])
    bridges = []
    for hole in range(len(holes)):
        bridges.append(contours.find_bridge(outline, np.concatenate(holes), hole_start, hole))
        assert bridges[-1] == twin_bridge([(x, z) for x, _, z in outline.tolist()], places, hole)
    if len(holes) == 1 and bridges[0][0] >= 0:
        merged = contours.merge_holes(outline, holes)
        assert len(merged) == len(outline) + len(holes[0]) + 2
        assert doubled_area(merged) == doubled_area(outline) + doubled_area(holes[0])


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
    """The height of a triangulation at a place."""
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
