"""Building navmeshes: analytic rooms, agreement with Recast, and the promises that later kernels rely on."""

import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
import trimesh
from floors import SCENES, areas_from_above, indexed, oracle, scene_mesh
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from rooms import box

from gym_batchnav.navmesh.build import build_navmesh
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.navmesh.record import NavMeshData, NavMeshSettings

# A ledge takes one cell and a radius of 0.1 m two more; beside a wall it is the radius alone.
LEDGE_INSET = 0.15


def quad(a, b, c, d):
    """The triangles [2, 3, 3] of a rectangle that is seen counter-clockwise from its front."""
    return np.array([[a, b, c], [a, c, d]])


def built(*parts, **settings):
    return build_navmesh(*indexed(*parts), NavMeshSettings(**settings))


def slab(x, z, top=0.0):
    """A floor from (0, 0) to (x, z)."""
    return box([0, top - 0.1, 0], [x, top, z])


def island_areas(mesh: NavMeshData) -> np.ndarray:
    return np.sort(np.bincount(mesh.polygon_island, areas_from_above(mesh)))[::-1]


def contains(corners, x, z, slack=1e-9):
    """Whether places lie in a convex polygon seen from above."""
    inside = np.ones(np.broadcast(x, z).shape, bool)
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        inside &= (b[0] - a[0]) * (z - a[2]) - (b[2] - a[2]) * (x - a[0]) <= slack
    return inside


def floor_heights(mesh: NavMeshData, x, z, choose=np.fmax) -> np.ndarray:
    """Highest detail triangle at each place, or lowest with np.fmin; NaN where there is none."""
    heights = np.full(np.shape(x), np.nan)
    points = np.concatenate([mesh.vertices, mesh.detail_vertices]).astype(np.float64)
    for corners in points[mesh.detail_triangles]:
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        inside = contains(corners, x, z)
        plane = corners[0, 1] - (normal[0] * (x - corners[0, 0]) + normal[2] * (z - corners[0, 2])) / normal[1]
        heights = np.where(inside, choose(heights, plane), heights)
    return heights


def wall_length(mesh: NavMeshData) -> float:
    total = 0.0
    for row, across in zip(mesh.polygons, mesh.neighbours, strict=True):
        corners = mesh.vertices[row[row >= 0]][:, ::2]
        lengths = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
        total += lengths[across[: len(corners)] < 0].sum()
    return total


def covered(mesh: NavMeshData, origin, step, shape) -> np.ndarray:
    """[NZ, NX] bool: some polygon lies over or under the place."""
    picture = Image.new("L", shape[::-1])
    for row in mesh.polygons:
        corners = (mesh.vertices[row[row >= 0]][:, ::2] - origin) / step
        ImageDraw.Draw(picture).polygon(list(map(tuple, corners.tolist())), fill=1)
    return np.array(picture, bool)


def assert_sound(mesh: NavMeshData) -> None:
    """Fail unless a navmesh has what kernels rely on and its record does not check."""
    assert (areas_from_above(mesh) > 0).all()
    edges = {}
    for polygon, row in enumerate(mesh.polygons):
        loop = row[row >= 0].tolist()
        for edge, pair in enumerate(zip(loop, loop[1:] + loop[:1], strict=True)):
            assert pair not in edges, "two polygons lie on the same side of an edge"
            edges[pair] = (polygon, mesh.neighbours[polygon, edge])
    for (a, b), (polygon, across) in edges.items():
        assert across == edges.get((b, a), (-1, -1))[0], f"polygon {polygon} and {across} disagree"
    assert np.unique(mesh.polygons[mesh.polygons >= 0]).tolist() == list(range(len(mesh.vertices)))
    points = np.concatenate([mesh.vertices, mesh.detail_vertices]).astype(np.float64)
    a, b, c = np.moveaxis(points[mesh.detail_triangles], 1, 0)
    from_above = ((c - a)[:, 0] * (b - a)[:, 2] - (b - a)[:, 0] * (c - a)[:, 2]) / 2
    assert (from_above > -1e-6).all(), "detail triangles wind as their polygon"
    covering = np.add.reduceat(from_above, mesh.detail_start[:-1])
    np.testing.assert_allclose(covering, areas_from_above(mesh), atol=1e-4)


# Rooms whose answer is known


def test_a_floor_shrinks_by_a_ledge_and_the_radius():
    mesh = built(slab(4, 3))
    assert areas_from_above(mesh).sum() == pytest.approx((4 - 2 * LEDGE_INSET) * (3 - 2 * LEDGE_INSET), abs=1e-4)
    assert_sound(mesh)


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.25, 0.5])
def test_walls_keep_the_agent_at_its_radius(radius):
    walls = [
        *(box([-0.1, -0.1, -0.1], [4.1, 2, 0]), box([-0.1, -0.1, 3], [4.1, 2, 3.1])),
        *(box([-0.1, -0.1, -0.1], [0, 2, 3.1]), box([4, -0.1, -0.1], [4.1, 2, 3.1])),
    ]
    mesh = built(slab(4, 3), *walls, agent_radius=radius)
    low = mesh.vertices.min(axis=0)
    high = mesh.vertices.max(axis=0)
    assert low[[0, 2]] == pytest.approx(radius, abs=0.051)
    assert high[[0, 2]] == pytest.approx(np.array([4, 3]) - radius, abs=0.051)
    assert areas_from_above(mesh).sum() == pytest.approx((4 - 2 * radius) * (3 - 2 * radius), rel=0.05)


def test_a_pillar_leaves_a_hole():
    empty = areas_from_above(built(slab(6, 6))).sum()
    mesh = built(slab(6, 6), box([2, -0.1, 2.5], [3, 2, 3.5]))
    assert empty - areas_from_above(mesh).sum() == pytest.approx(1.2 * 1.2, abs=0.13)  # up to a cell more on each side
    x, z = np.meshgrid(np.linspace(2, 3, 9), np.linspace(2.5, 3.5, 9))
    assert np.isnan(floor_heights(mesh, x, z)).all()
    assert mesh.polygon_island.max() == 0
    assert_sound(mesh)


def rooms_with_a_door(width):
    return slab(6, 5), box([3, -0.1, 0], [3.2, 2, 2]), box([3, -0.1, 2 + width], [3.2, 2, 5])


@pytest.mark.parametrize(
    ("parts", "islands"),
    [
        (rooms_with_a_door(0.0), 2),
        (rooms_with_a_door(0.15), 2),
        (rooms_with_a_door(0.9), 1),
        ((slab(5, 4), box([2.5, -0.1, 0], [5, 0.15, 4])), 1),  # a step up to the agent's limit
        ((slab(5, 4), box([2.5, -0.1, 0], [5, 0.6, 4])), 2),
        ([slab(3, 3, top=3.0 * k) for k in range(60)], 60),
        ([slab(2, 2), slab(2, 2, top=6500.0)], 2),  # nearly as high as 16 bits hold
    ],
)
def test_places_are_one_island_if_one_can_walk_between_them(parts, islands):
    assert built(*parts).num_islands == islands


@pytest.mark.parametrize(("height", "free"), [(1.0, False), (1.4, False), (1.9, True)])
def test_one_passes_under_what_is_high_enough(height, free):
    mesh = built(slab(6, 6), box([2, height, 2], [4, height + 0.1, 4]))
    lowest = floor_heights(mesh, np.array([3.0]), np.array([3.0]), np.fmin)
    assert (lowest[0] < 0.5) == free


@pytest.mark.parametrize(("slope_deg", "walkable"), [(20, True), (40, True), (50, False), (80, False)])
def test_slopes_are_walkable_up_to_the_agents_limit(slope_deg, walkable):
    rise = 3 * np.tan(np.radians(slope_deg))
    ramp = quad([0, 0, 0], [0, 0, 3], [3, rise, 3], [3, rise, 0])
    # Cells are so fine that a slope of 45 degrees rises by less than a climb in each.
    fine = dict(cell_height=0.05, agent_max_climb=0.2)
    if walkable:
        assert areas_from_above(built(ramp, **fine)).sum() == pytest.approx(2.7**2, rel=0.1)
    else:
        with pytest.raises(ValueError, match="no walkable area"):
            built(ramp, **fine)


def test_islands_and_regions_that_are_too_small_are_dropped_and_merged():
    walls = box([1, -0.1, 1], [1.2, 2, 3]), box([1.2, -0.1, 2], [3, 2, 2.2])
    parts = slab(4, 4), box([5, -0.1, 0], [6.1, 0, 1.1]), *walls
    both, one = (built(*parts, region_min_size=cells) for cells in (15.0, 17.0))
    assert island_areas(both)[1] == pytest.approx(0.8**2, rel=0.1)  # 256 cells
    assert both.num_islands == 2 and one.num_islands == 1
    apart, merged = (built(*parts, region_merge_size=size) for size in (0.0, 100.0))
    assert len(apart.polygons) > len(merged.polygons)
    assert areas_from_above(apart).sum() == pytest.approx(areas_from_above(merged).sum(), rel=0.01)


def test_storeys_lie_one_above_the_other():
    mesh = built(slab(4, 4), slab(4, 4, top=3.0), slab(4, 4, top=6.0))
    assert island_areas(mesh) == pytest.approx([3.7**2] * 3, abs=1e-3)
    heights = [mesh.vertices[mesh.polygons[mesh.polygon_island == island, 0], 1].mean() for island in range(3)]
    assert np.sort(heights) == pytest.approx([0, 3, 6], abs=0.2)
    assert_sound(mesh)


def stairs():
    """Two storeys with a flight of twenty steps of 0.15 m from the lower to the upper."""
    steps = [box([2 + 0.3 * k, -0.1, 1], [2.3 + 0.3 * k, 0.15 * (k + 1), 2.5]) for k in range(20)]
    return slab(12, 3), box([8, 2.9, 0], [12, 3, 3]), *steps


def test_stairs_join_storeys_and_are_followed():
    mesh = built(*stairs())
    lower = mesh.polygon_island[np.argmin(mesh.vertices[mesh.polygons[:, 0], 1])]
    upper = mesh.polygon_island[np.argmax(mesh.vertices[mesh.polygons[:, 0], 1])]
    assert lower == upper
    x = np.linspace(2.2, 7.8, 60)
    z = np.full(60, 1.75)
    # Floors are rounded up to voxels of 0.2 m, and may be missed by one more.
    truth = 0.15 * (np.floor((x - 2) / 0.3) + 1)
    heights = floor_heights(mesh, x, z)
    assert (heights > truth - 0.25).all()
    assert (heights < truth + 0.45).all()
    assert_sound(mesh)


def test_heights_follow_a_hill_and_agree_across_edges():
    side = np.linspace(0, 12, 61)
    x, z = np.meshgrid(side, side, indexing="ij")
    y = 1.2 * np.sin(x / 1.8) * np.cos(z / 2.1) + 1.5
    p = np.stack([x, y, z], axis=-1)
    hill = [quad(p[i, k], p[i, k + 1], p[i + 1, k + 1], p[i + 1, k]) for i in range(60) for k in range(60)]
    pillars = [box([a, -1, b], [a + 0.5, 5, b + 0.5]) for a in (3, 6, 9) for b in (3, 6, 9)]
    mesh = built(*hill, *pillars, cell_height=0.05)
    rng = np.random.default_rng(1)
    px, pz = rng.uniform(0.5, 11.5, (2, 800))
    errors = floor_heights(mesh, px, pz) - (1.2 * np.sin(px / 1.8) * np.cos(pz / 2.1) + 1.5)
    assert np.nanpercentile(np.abs(errors), 99) < 4 * 0.05
    assert_sound(mesh)
    # Vertices that detail meshes add to a shared edge are added from both sides.
    added = np.unique(mesh.detail_vertices, axis=0, return_counts=True)[1]
    assert (added <= 2).all() and (added == 2).any()


def test_heights_are_sampled_no_finer_than_cells():
    ramp = quad([0, 0, 0], [0, 0, 4], [6, 2, 4], [6, 2, 0])
    flat, sampled, tiny = (
        built(ramp, detail_sample_dist=distance, detail_sample_max_error=0) for distance in (0.0, 1.0, 1e-9)
    )
    assert not len(flat.detail_vertices) and not len(tiny.detail_vertices) and len(sampled.detail_vertices)


# What the order and the quality of the triangles may change: nothing


def test_order_repetition_and_triangles_without_area_do_not_matter():
    vertices, triangles = indexed(*stairs())
    rng = np.random.default_rng(0)
    shuffled = np.concatenate([triangles, triangles])[rng.permutation(2 * len(triangles))]
    far = np.concatenate([vertices, [[90, 90, 90]]])
    degenerate = np.concatenate([shuffled, [[len(vertices)] * 3, [0, 0, 1], [0, 1, 0]]])
    first, second = build_navmesh(vertices, triangles), build_navmesh(far, degenerate)
    for field in fields(NavMeshData):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


def test_a_floor_seen_from_below_carries_nobody():
    floor = quad([0, 0, 0], [0, 0, 4], [4, 0, 4], [4, 0, 0])
    assert len(built(floor).polygons) == 1
    with pytest.raises(ValueError, match="counter-clockwise"):
        built(floor[:, ::-1])


@st.composite
def rubble(draw):
    """A floor with boxes, tilted quads and loose triangles, some of them turned over."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    side = rng.uniform(2, 5)
    parts = [slab(side, side * rng.uniform(0.5, 1))]
    for _ in range(rng.integers(0, 10)):
        lower = rng.uniform([-1, -0.5, -1], [side, 2.5, side])
        parts.append(box(lower, lower + rng.choice([0.1, 0.3, 1.0, 2.0], 3)))
    for _ in range(rng.integers(0, 3)):
        corner, u, v = rng.uniform([0, 0, 0], [side, 2, side]), *rng.normal(0, [1.5, 0.5, 1.5], (2, 3))
        parts.append(quad(corner, corner + u, corner + u + v, corner + v))
    loose = int(rng.integers(1, 40))
    parts.append(rng.uniform([0, 0, 0], [side, 2, side], (loose, 3, 3)))
    triangles = np.concatenate(parts)
    turned = rng.random(len(triangles)) < rng.choice([0.0, 0.2])
    triangles[turned] = triangles[turned][:, ::-1]
    settings = NavMeshSettings(
        cell_height=float(rng.choice([0.05, 0.1, 0.2])),
        agent_max_climb=float(rng.choice([0.0, 0.2, 0.5])),
        region_min_size=float(rng.choice([0, 5, 20])),
        region_merge_size=float(rng.choice([0, 20, 200])),
        edge_max_len=float(rng.choice([0, 1, 12])),
        edge_max_error=float(rng.choice([0.0, 0.5, 1.3, 3.0])),
        verts_per_poly=int(rng.choice([3, 4, 6])),
        detail_sample_dist=float(rng.choice([0, 3, 6])),
        detail_sample_max_error=float(rng.choice([0.0, 0.3, 1.0])),
    )
    return triangles, settings


@given(rubble())
def test_whatever_the_triangles_the_mesh_is_sound(scene):
    triangles, chosen = scene
    try:
        mesh = build_navmesh(*indexed(triangles), chosen)
    except ValueError as error:
        assert "no walkable area" in str(error)
    else:
        assert_sound(mesh)
        assert ((mesh.polygons >= 0).sum(axis=1) <= chosen.verts_per_poly).all()


# What is refused


FLOOR = slab(4, 3)
PILLARS = [box([x, 0, z], [x + 0.1, 2, z + 0.1]) for x in (0.45, 0.95, 1.45) for z in (0.45, 0.95, 1.45)]
TOWER = [slab(2, 2, top=1.7 * k) for k in range(420)]
VERTICES, TRIANGLES = indexed(FLOOR)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell_size": 0.0}, "cell_size=0.0"),
        ({"cell_size": float("nan")}, "cell_size=nan"),
        ({"cell_height": -1.0}, "cell_height=-1.0"),
        ({"agent_radius": -0.1}, "agent_radius=-0.1"),
        ({"agent_max_climb": 2.0}, "agent_max_climb=2.0"),
        ({"agent_max_slope_deg": 90.0}, "agent_max_slope_deg=90.0"),
        ({"verts_per_poly": 7}, "verts_per_poly=7"),
        ({"verts_per_poly": 3.5}, "verts_per_poly=3.5"),
        ({"agent_radius": 5.0}, "no walkable area for an agent of radius 5 m"),
        ({"cell_size": 1e-5}, "cell_size=1e-05"),
        ({"cell_height": 1e-40}, "cell_height=1e-40"),
        ({"cell_size": [0.05]}, "cell_size="),
        ({"agent_height": 10**400}, "agent_height="),
        ({"filter_ledge_spans": 1}, "filter_ledge_spans="),
    ],
)
def test_settings_that_cannot_be_used_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        built(FLOOR, **change)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (TOWER, "too many floors lie above each other.*split the scene by storeys"),
        (TOWER[::-1], "too many floors lie above each other.*split the scene by storeys"),
        ([slab(16, 12) * [100, 2500, 100]], "hardly the size of a building; .*centimetre, pass scale=0.01 to"),
        ([slab(16, 12) * [1000, 25_000, 1000]], "if its unit is the millimetre, pass scale=0.001 to load_scene"),
        ([box([-3e38, 0, -3e38], [3e38, 1, 3e38])], "cell_size"),
        ([slab(2, 2), slab(2, 2, top=6600.0)], r"3.3e\+04 levels.*32,766 levels: give a larger cell_height$"),
        ([slab(400, 400)], "give a larger cell_size$"),
        ([FLOOR * np.nan], "36 vertices are not finite"),
        ([FLOOR.astype(float) * 1e300], "vertices are not finite"),
        ([FLOOR[:0]], "no triangles"),
        ([FLOOR[:, [0, 1, 1]]], "has an area"),
    ],
)  # fmt: skip
def test_triangles_without_a_navmesh_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        built(*parts)


@pytest.mark.parametrize(
    ("vertices", "triangles", "message"),
    [
        (VERTICES[:5], TRIANGLES, "0 to 35, but there are 5"),
        (VERTICES[:, :2], TRIANGLES, r"\[V, 3\]"),
        (VERTICES, TRIANGLES.astype(float), "integers"),
    ],
)
def test_malformed_arrays_are_refused(vertices, triangles, message):
    with pytest.raises(ValueError, match=message):
        build_navmesh(vertices, triangles)


@pytest.mark.parametrize(
    ("limit", "parts", "message"),
    [
        ("build.MAX_FLOORS", [slab(4, 4)], r"[0-9,]+ spans of voxels to stand on; the limit is 1: give a larger"),
        ("build.MAX_SPANS", [slab(4, 4)], "fills more than 1 spans of voxels: give a larger cell_size"),
        ("build.contours.MAX_HOLE_PAIRS", [slab(2, 2), *PILLARS], "9 holes and"),
    ],
)
def test_more_than_a_limit_is_refused(monkeypatch, limit, parts, message):
    built(*parts)
    monkeypatch.setattr(f"gym_batchnav.navmesh.{limit}", 1)
    with pytest.raises(ValueError, match=message):
        built(*parts)


def test_progress_is_told_in_order():
    reports = []
    build_navmesh(*indexed(slab(4, 3)), progress=lambda stage, share: reports.append((stage, share)))
    shares = [share for _, share in reports]
    assert shares == sorted(shares)
    assert shares[0] == 0.0 and reports[-1] == ("done", 1.0)


# Agreement with Recast on real scenes


def source_of(data_dir, wanted):
    """The triangles and the settings that an oracle's navmesh was made from."""
    loaded = trimesh.load(data_dir / "scenes" / wanted["source"], process=False, force="scene")
    whole = loaded.to_mesh().apply_transform(wanted["transform"])
    chosen = dict(wanted["settings"])
    chosen["agent_max_slope_deg"] = chosen.pop("agent_max_slope")
    return whole.vertices.astype(np.float32), whole.faces, NavMeshSettings(**chosen)


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_real_scenes_agree_with_recast(scene, data_dir):
    wanted = oracle(data_dir, scene)
    vertices, triangles, chosen = source_of(data_dir, wanted)
    mesh = build_navmesh(vertices, triangles, chosen)
    reference = scene_mesh(data_dir, scene).data
    assert_sound(mesh)
    assert areas_from_above(mesh).sum() == pytest.approx(wanted["navmesh"]["area_xz"], rel=0.01)
    large, theirs = (areas[areas > 1.0] for areas in (island_areas(mesh), island_areas(reference)))
    assert len(large) == len(theirs)
    np.testing.assert_allclose(large, theirs, rtol=0.02)
    np.testing.assert_allclose(mesh.vertices[:, 1].min(), reference.vertices[:, 1].min(), atol=chosen.cell_height)

    # Seen from above, outlines differ by less than a hand's breadth: 1 cm on average.
    step = chosen.cell_size / 4
    origin = np.minimum(mesh.vertices.min(axis=0), reference.vertices.min(axis=0))[::2] - step / 2
    upper = np.maximum(mesh.vertices.max(axis=0), reference.vertices.max(axis=0))[::2]
    shape = tuple(np.ceil((upper - origin) / step).astype(int)[::-1] + 2)
    different = covered(mesh, origin, step, shape) ^ covered(reference, origin, step, shape)
    assert different.sum() * step**2 <= 0.01 * wall_length(reference)

    pairs = wanted["pairs"]
    lengths = NavMesh(mesh).geodesic_distance(np.array(pairs["start"]), np.array(pairs["end"]))
    assert (np.abs(lengths / np.array(pairs["exact"]) - 1) <= 0.01).mean() >= 0.95


LARGEST = """
import numpy as np
import resource
import sys
from gym_batchnav.navmesh.build import build_navmesh

walkable = sys.argv[1] == "floors"
size, heights = (111, (0, 2)) if walkable else (124, (0, 2, 4, 6))
corners = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 0, 0]], np.float32) * size
vertices = np.concatenate([corners + np.float32([0, height, 0]) for height in heights])
quad = np.array([[0, 1, 2], [0, 2, 3]] if walkable else [[0, 2, 1], [0, 3, 2]])
triangles = np.concatenate([quad + 4 * k for k in range(len(heights))])
build_navmesh(corners / 9, np.array([[0, 1, 2], [0, 2, 3]]))  # compiles
try:
    build_navmesh(vertices, triangles)
except ValueError as error:
    assert "no walkable area" in str(error), error
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory by Linux's means")
@pytest.mark.parametrize("kind", ["floors", "ceilings"])
def test_the_largest_scenes_that_are_accepted_take_less_than_a_gibibyte(kind):
    """About ten million spans to stand on, and 24 million to hit one's head on."""
    done = subprocess.run([sys.executable, "-c", LARGEST, kind], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2**20, "KiB"
