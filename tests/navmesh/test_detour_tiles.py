"""Navmesh files of several tiles: made byte by byte from Detour's layout, against the same floor in one tile."""

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from floors import areas_from_above
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recast_tiles import PATHS, tiled_file

from gym_batchnav.navmesh.detour import read_navmesh, write_navmesh
from gym_batchnav.navmesh.mesh import NavMesh

EAST, SOUTH, WEST, NORTH = 0, 2, 4, 6  # +x, +z, -x, -z
CLIMB = 0.2


def tile(place: tuple[int, int], rectangles: list, height: float = 0.0) -> bytes:
    """One tile of rectangles (x0, z0, x1, z1), whose sides named after them are portals, others walls or inner edges.

    A rectangle may give its inner neighbours as {side: index}.
    """
    places: dict[tuple[float, float], int] = {}
    polygons, details, triangles = b"", b"", b""
    for number, (box, portals, inner) in enumerate(rectangles):
        x0, z0, x1, z1 = box
        corners = [places.setdefault(at, len(places)) for at in ((x0, z0), (x0, z1), (x1, z1), (x1, z0))]
        neighbours = [
            0x8000 | side if side in portals else inner.get(side, -1) + 1 for side in (WEST, SOUTH, EAST, NORTH)
        ]
        polygons += struct.pack("<I6H6HHBB", 0xFFFFFFFF, *corners, 0, 0, *neighbours, 0, 0, 1, 4, 0)
        details += struct.pack("<IIBBxx", 0, 2 * number, 0, 2)
        triangles += bytes([0, 1, 2, 5, 0, 2, 3, 20])
    count = len(rectangles)
    head = struct.pack("<iiiiiI", 0x444E4156, 7, *place, 0, 0)
    head += struct.pack("<9i", count, len(places), 0, count, 0, 2 * count, 0, 0, count)
    head += struct.pack("<3f", 1.5, 0.1, CLIMB) + struct.pack("<7f", 0, 0, 0, 1, 1, 1, 20.0)
    vertices = b"".join(struct.pack("<3f", x, height, z) for x, z in places)
    return head + vertices + polygons + details + triangles


def written(path: Path, *tiles: bytes) -> Path:
    data = struct.pack("<3i3f2f2i", 0x4D534554, 1, len(tiles), 0, 0, 0, 5, 5, 16, 64)
    for one in tiles:
        data += struct.pack("<Ii", 1, len(one)) + one
    path.write_bytes(data)
    return path


def room_of_four_tiles(path: Path) -> Path:
    """A room of 10 m by 10 m in tiles of 5 m, with a wall from (5, 2) to (5, 8) that has no thickness."""
    return written(
        path,
        tile((0, 0), [((0, 0, 5, 2), {EAST}, {SOUTH: 1}), ((0, 2, 5, 5), {SOUTH}, {NORTH: 0})]),
        tile((1, 0), [((5, 0, 10, 2), {WEST}, {SOUTH: 1}), ((5, 2, 10, 5), {SOUTH}, {NORTH: 0})]),
        tile((0, 1), [((0, 5, 5, 8), {NORTH}, {SOUTH: 1}), ((0, 8, 5, 10), {EAST}, {NORTH: 0})]),
        tile((1, 1), [((5, 5, 10, 8), {NORTH}, {SOUTH: 1}), ((5, 8, 10, 10), {WEST}, {NORTH: 0})]),
    )


def around_the_wall(starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """The exact distances in that room, for points on different sides of the wall."""
    ends = np.array([[5.0, 2.0], [5.0, 8.0]])
    over = [np.linalg.norm(starts - end, axis=1) + np.linalg.norm(goals - end, axis=1) for end in ends]
    share = (5 - starts[:, 0]) / (goals[:, 0] - starts[:, 0])
    crossing = starts[:, 1] + share * (goals[:, 1] - starts[:, 1])
    direct = np.linalg.norm(starts - goals, axis=1)
    return np.where((crossing < 2) | (crossing > 8), direct, np.minimum(*over))


@pytest.mark.parametrize("method", ["exact", "detour"])
def test_distances_are_those_of_the_room_without_tiles(tmp_path, method):
    mesh = NavMesh.load(room_of_four_tiles(tmp_path / "room.navmesh"))
    assert mesh.num_islands == 1 and mesh.navigable_area == pytest.approx(100)
    rng = np.random.default_rng(0)
    starts, goals = rng.uniform([0.1, 0.1], [4.9, 9.9], (300, 2)), rng.uniform([5.1, 0.1], [9.9, 9.9], (300, 2))
    lift = np.array([[1.0, 0, 0], [0, 0, 1]])
    found = mesh.geodesic_distance(starts @ lift, goals @ lift, method)
    expected = around_the_wall(starts, goals)
    if method == "exact":
        np.testing.assert_allclose(found, expected, atol=1e-4)
    else:
        assert (found > expected - 1e-4).all() and (found < 1.5 * expected).all()


def test_it_is_written_as_one_tile_that_reads_the_same(tmp_path):
    mesh = read_navmesh(room_of_four_tiles(tmp_path / "room.navmesh"))
    write_navmesh(mesh, tmp_path / "one.navmesh", version=1)
    again = read_navmesh(tmp_path / "one.navmesh")
    assert struct.unpack_from("<i", (tmp_path / "one.navmesh").read_bytes(), 8) == (1,)
    for name in ("vertices", "polygons", "neighbours", "detail_start", "polygon_island"):
        np.testing.assert_array_equal(getattr(again, name), getattr(mesh, name))
    before, after = (np.concatenate([one.vertices, one.detail_vertices])[one.detail_triangles] for one in (mesh, again))
    np.testing.assert_array_equal(after, before)


def test_a_file_of_recast_is_walked_as_by_detour(tmp_path):
    (tmp_path / "recast.navmesh").write_bytes(tiled_file())
    assert struct.unpack_from("<i", tiled_file(), 8)[0] == 12, "four tiles by three"
    mesh = NavMesh.load(tmp_path / "recast.navmesh")
    paths = np.array(PATHS)
    exact = mesh.geodesic_distance(paths[:, :3], paths[:, 3:6])
    assert (exact < paths[:, 6] + 0.02).all(), "Detour's path is never shorter"
    assert (exact >= np.linalg.norm(paths[:, :3] - paths[:, 3:6], axis=1) - 1e-3).all()
    ours = mesh.geodesic_distance(paths[:, :3], paths[:, 3:6], "detour")
    np.testing.assert_allclose(ours, paths[:, 6], rtol=0.15)  # its polygons are others, so paths may differ
    assert np.median(np.abs(ours - paths[:, 6])) < 1e-3


def strips(cuts_west: list, cuts_east: list, gap: float = 0.0, height: float = 0.0) -> tuple[bytes, bytes]:
    """Two tiles side by side, cut into strips along z at different places."""

    def one(place, x0, x1, cuts, side, own):
        spans = list(pairwise(cuts))
        inner = [{} for _ in spans]
        for k in range(len(spans) - 1):
            inner[k][SOUTH] = k + 1
            inner[k + 1][NORTH] = k
        rows = [((x0, a, x1, b), {side}, links) for (a, b), links in zip(spans, inner, strict=True)]
        return tile(place, rows, own)

    return one((0, 0), 0, 5, cuts_west, EAST, 0.0), one((1, 0), 5 + gap, 10 + gap, cuts_east, WEST, height)


@pytest.mark.parametrize(
    ("west", "east"),
    [
        ([0, 10], [0, 10]),
        ([0, 10], [0, 5, 10]),
        ([0, 4, 10], [0, 6, 10]),
        ([0, 10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ([0, 3.3, 6.6, 10], [1, 2, 3, 7, 9]),
    ],
)
def test_edges_that_overlap_in_part_are_connected(tmp_path, west, east):
    mesh = NavMesh.load(written(tmp_path / "strips.navmesh", *strips(west, east)))
    area = 5 * (west[-1] - west[0]) + 5 * (east[-1] - east[0])
    assert mesh.num_islands == 1
    assert mesh.navigable_area == pytest.approx(area) and areas_from_above(mesh.data).sum() == pytest.approx(area)
    low, high = max(west[0], east[0]), min(west[-1], east[-1])
    rng = np.random.default_rng(0)
    starts = np.stack([rng.uniform(0.1, 4.9, 100), np.zeros(100), rng.uniform(low, high, 100)], axis=1)
    goals = np.stack([rng.uniform(5.1, 9.9, 100), np.zeros(100), rng.uniform(low, high, 100)], axis=1)
    np.testing.assert_allclose(mesh.geodesic_distance(starts, goals), np.linalg.norm(goals - starts, axis=1), atol=1e-4)


@pytest.mark.parametrize(
    ("gap", "height", "islands"), [(0.0, 0.3, 1), (0.0, 0.5, 2), (0.005, 0.0, 1), (0.02, 0.0, 2), (-0.5, 0.0, 2)]
)
def test_edges_connect_within_detours_tolerances(tmp_path, gap, height, islands):
    """A centimetre apart, and twice the climb in height."""
    mesh = read_navmesh(written(tmp_path / "gap.navmesh", *strips([0, 10], [0, 10], gap, height)))
    assert mesh.num_islands == islands


def test_tiles_that_are_no_neighbours_are_not_connected(tmp_path):
    west, _ = strips([0, 10], [0, 10])
    far = tile((3, 0), [((5, 0, 10, 10), {WEST}, {})])
    assert read_navmesh(written(tmp_path / "far.navmesh", west, far)).num_islands == 2


def test_floors_above_each_other_are_connected_each_to_its_own(tmp_path):
    west, east = strips([0, 10], [0, 10])
    upper_west = tile((0, 0), [((0, 0, 5, 10), {EAST}, {})], 3.0)
    upper_east = tile((1, 0), [((5, 0, 10, 4), {WEST}, {})], 3.0)
    mesh = read_navmesh(written(tmp_path / "floors.navmesh", west, east, upper_west, upper_east))
    assert mesh.num_islands == 2
    heights = [mesh.vertices[row[row >= 0], 1] for row in mesh.polygons]
    assert all(np.ptp(one) == 0 for one in heights), "no polygon leads from one floor to the other"


def test_heights_stay_those_of_the_details(tmp_path):
    """Where a polygon is divided, the floor keeps its slope."""
    west, east = strips([0, 10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    data = bytearray(west)
    for corner in (2, 3):  # a ramp: the side at the border is 0.3 m higher
        struct.pack_into("<f", data, 100 + 12 * corner + 4, 0.3)
    mesh = NavMesh.load(written(tmp_path / "ramp.navmesh", bytes(data), east))
    points = np.stack([np.linspace(0.2, 4.8, 20), np.full(20, 0.15), np.linspace(0.3, 9.7, 20)], axis=1)
    np.testing.assert_allclose(mesh.snap(points)[:, 1], 0.06 * points[:, 0], atol=1e-3)


def test_overlaps_without_end_are_refused(tmp_path):
    cuts = np.linspace(0, 10, 800).tolist()
    flat = [((0, 0, 5, 10), {EAST}, {})] * 800
    east = tile((1, 0), [((5, a, 10, b), {WEST}, {}) for a, b in pairwise(cuts)])
    with pytest.raises(ValueError, match="overlap more than"):
        read_navmesh(written(tmp_path / "hostile.navmesh", tile((0, 0), flat), east))


def test_a_polygon_with_neighbours_without_end_is_refused(tmp_path):
    many = strips([0, 10], np.linspace(0, 10, 80).tolist())
    with pytest.raises(ValueError, match="touches more than 64 others"):
        read_navmesh(written(tmp_path / "many.navmesh", *many))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(40, 3000), value=st.sampled_from([b"\xff", b"\0", b"\x7f", b"\xff" * 4, b"\0\0\x20\x41"]))
def test_damaged_tiles_are_refused_or_read_whole(tmp_path, place, value):
    path = room_of_four_tiles(tmp_path / "room.navmesh")
    data = bytearray(path.read_bytes())
    place %= len(data) - 4
    data[place : place + len(value)] = value
    path.write_bytes(data)
    try:
        mesh = read_navmesh(path)
    except ValueError as error:
        assert "room.navmesh" in str(error)
    else:
        assert np.isfinite(mesh.vertices).all()
