"""Reading and writing .navmesh files, against files and answers that other software made."""

import struct
from dataclasses import astuple, fields, replace
from pathlib import Path

import numpy as np
import pytest
from floors import SCENES, areas_from_above, mesh_of, oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym_batchnav.navmesh.detour import read_navmesh, write_navmesh
from gym_batchnav.navmesh.record import NavMeshData, NavMeshSettings

ARRAYS = [field.name for field in fields(NavMeshData) if field.name != "settings"]
SET_BYTES = 40
SETTINGS_BYTES = 56
ENTRY_BYTES = 8
TILE_BYTES = 100


def two_rooms() -> NavMeshData:
    """Two squares side by side that share an edge, the second with a raised point inside, and a square apart."""
    vertices = [[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 0, 0], [2, 0, 1], [2, 0, 0], [5, 1, 0], [5, 1, 1], [6, 1, 1]]
    triangles = [[0, 1, 2], [0, 2, 3], [3, 2, 9], [2, 4, 9], [4, 5, 9], [5, 3, 9], [6, 7, 8]]
    return replace(
        mesh_of(vertices, [[0, 1, 2, 3], [3, 2, 4, 5], [6, 7, 8]]).data,
        detail_vertices=np.array([[1.5, 0.25, 0.5]], np.float32),
        detail_triangles=np.array(triangles, np.int32),
        detail_start=np.array([0, 2, 6, 7], np.int32),
        settings=NavMeshSettings(agent_radius=0.2, region_min_size=7.0, filter_ledge_spans=False),
        bounds=np.array([[-1, -1, -2], [7, 3, 4]], np.float32),
    )


def without_settings(data: bytes) -> bytes:
    """The file of version 1 that holds the same tile."""
    return data[:4] + struct.pack("<i", 1) + data[8:SET_BYTES] + data[SET_BYTES + SETTINGS_BYTES :]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_navmesh(two_rooms(), tmp_path / "rooms.navmesh")
    return tmp_path / "rooms.navmesh"


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_recasts_files_hold_what_the_oracle_says(scene, data_dir):
    wanted = oracle(data_dir, scene)
    mesh = read_navmesh(data_dir / "fixtures" / scene / "recast.navmesh")
    assert len(mesh.polygons) == wanted["navmesh"]["polys"]
    assert len(mesh.vertices) == wanted["navmesh"]["verts"]
    assert mesh.polygon_island.tolist() == wanted["poly_island"]
    areas = areas_from_above(mesh)
    assert areas.min() == pytest.approx(wanted["navmesh"]["smallest_poly_xz"], rel=1e-3), "all wind the same way"
    assert mesh.settings.cell_size == wanted["settings"]["cell_size"]
    assert mesh.settings.agent_radius == wanted["settings"]["agent_radius"]
    # Recast adds the agent's height above the scene.
    np.testing.assert_allclose(mesh.bounds[:, ::2], np.array(wanted["bounds"])[:, ::2], atol=1e-5)


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_written_tiles_are_laid_out_as_recasts(scene, data_dir, tmp_path):
    source = data_dir / "fixtures" / scene / "recast.navmesh"
    write_navmesh(read_navmesh(source), tmp_path / "ours.navmesh")
    theirs = source.read_bytes()
    ours = without_settings((tmp_path / "ours.navmesh").read_bytes())
    reference = struct.unpack_from("<I", theirs, SET_BYTES)
    assert struct.unpack_from("<I", ours, SET_BYTES) == reference
    # Magic, version, place, counts up to detail triangles: the link count is Detour's promise of memory.
    their_counts = struct.unpack_from("<12i", theirs, SET_BYTES + ENTRY_BYTES)
    assert struct.unpack_from("<12i", ours, SET_BYTES + ENTRY_BYTES) == their_counts
    polygons, vertices, links, details, detail_vertices, triangles = their_counts[6:]
    body = SET_BYTES + ENTRY_BYTES + TILE_BYTES
    first = body + 12 * vertices
    assert ours[body:first] == theirs[body:first]
    for polygon in range(polygons):  # All but the first link, which Detour sets.
        assert ours[first + 32 * polygon + 4 :][:28] == theirs[first + 32 * polygon + 4 :][:28]
    rest = first + 32 * polygons + 12 * links
    size = 12 * detail_vertices + 4 * triangles
    assert ours[rest + 12 * details :][:size] == theirs[rest + 12 * details :][:size], "with Detour's edge flags"


def test_settings_come_back_as_they_were(written):
    mesh = read_navmesh(written)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(mesh, name), getattr(two_rooms(), name), err_msg=name, strict=True)
    assert mesh.settings == two_rooms().settings


def test_a_file_without_settings_tells_the_agent(tmp_path):
    mesh = replace(two_rooms(), settings=NavMeshSettings(agent_radius=0.3, agent_max_climb=0.4, cell_size=0.1))
    write_navmesh(mesh, tmp_path / "new.navmesh")
    (tmp_path / "old.navmesh").write_bytes(without_settings((tmp_path / "new.navmesh").read_bytes()))
    assert read_navmesh(tmp_path / "old.navmesh").settings == mesh.settings


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, 10_000))
def test_a_file_cut_short_or_with_bytes_behind_its_tile_is_refused(written, length):
    data = written.read_bytes()
    cut = written.with_name("cut.navmesh")
    cut.write_bytes(data[: length % len(data)])
    with pytest.raises(ValueError, match=r"cut\.navmesh"):
        read_navmesh(cut)
    cut.write_bytes(data + b"\0")
    with pytest.raises(ValueError, match=r"cannot be used \(1 bytes follow its tile\): build or copy it again"):
        read_navmesh(cut)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), value=st.sampled_from([b"\xff", b"\0", b"\x7f", b"\xff" * 4, b"\xff\xff\xff\x7f"]))
def test_a_damaged_file_is_refused_or_read_whole(written, place, value):
    data = bytearray(written.read_bytes())
    place %= len(data) - 3
    data[place : place + len(value)] = value
    damaged = written.with_name("damaged.navmesh")
    damaged.write_bytes(data)
    try:
        mesh = read_navmesh(damaged)
    except ValueError as error:
        assert "damaged.navmesh" in str(error)
    else:
        assert mesh.detail_triangles.max() < len(mesh.vertices) + len(mesh.detail_vertices)
        assert mesh.polygons.max() < len(mesh.vertices)
        assert np.isfinite(mesh.vertices).all()


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    (tmp_path / "a.navmesh").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146")
    with pytest.raises(ValueError, match="run git lfs pull"):
        read_navmesh(tmp_path / "a.navmesh")


ENTRY = SET_BYTES + SETTINGS_BYTES
TILE = ENTRY + ENTRY_BYTES
POLYGON = TILE + TILE_BYTES + 12 * 9  # behind nine vertices


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "<I", 0x12345678, "not with MSET's number"),
        (4, "<i", 3, "its version is 3, and only 1 and 2"),
        (ENTRY + 4, "<i", 2**31 - 1, "2147483647 bytes"),
        (TILE, "<i", 1, "magic 0x00000001"),
        (TILE + 4, "<i", 6, "version 6"),
        (TILE + 24, "<i", -1, "negative counts"),
        (TILE + 28, "<i", 2**31 - 1, "its counts require"),
        (POLYGON + 4, "<H", 9, "vertices that do not exist"),
        (POLYGON + 16, "<H", 4, "neighbours that do not exist"),
        (POLYGON + 16, "<H", 3, "does not share its edge"),
        (POLYGON + 30, "<B", 7, "more than 6 vertices"),
        (POLYGON + 30, "<B", 2, "fewer than 3"),
        *((8, "<i", count, f"has {count} tiles.*solo mesh") for count in (-1, 0, 2, 2**31 - 1)),
    ],
)
def test_wrong_headers_and_polygons_are_named(written, offset, layout, value, message):
    data = bytearray(written.read_bytes())
    struct.pack_into(layout, data, offset, value)
    written.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_navmesh(written)


def test_polygons_that_are_not_walkable_are_left_out(written):
    data = bytearray(written.read_bytes())
    struct.pack_into("<H", data, POLYGON + 28, 0)
    written.write_bytes(data)
    mesh = read_navmesh(written)
    assert areas_from_above(mesh) == pytest.approx([1.0, 0.5])
    assert mesh.polygon_island.tolist() == [0, 1]
    assert (mesh.neighbours == -1).all()


def test_a_failed_write_leaves_the_old_file(written):
    before = written.read_bytes()
    corners = np.zeros((0x10000, 3), np.float32)
    corners[:9] = two_rooms().vertices
    with pytest.raises(ValueError, match="too many for one Detour tile"):
        write_navmesh(
            replace(two_rooms(), vertices=corners, detail_triangles=two_rooms().polygons[[0, 0, 1, 1, 1, 1, 2], :3]),
            written,
        )
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]


def test_an_empty_navmesh_is_not_written(tmp_path):
    data = two_rooms()
    none = {name: getattr(data, name)[:0] for name in ARRAYS if name != "detail_start"}
    with pytest.raises(ValueError, match="an empty navmesh cannot be saved"):
        write_navmesh(replace(data, **none, detail_start=np.zeros(1, np.int32)), tmp_path / "rooms.navmesh")


# A file of version 2 byte by byte, from habitat-sim's structs (NavMeshSetHeader, NavMeshSettings, NavMeshTileHeader)
# and Detour's (dtMeshHeader, dtPoly, dtPolyDetail) as the reference notes give them: no code of this package.
GOLDEN_SETTINGS = NavMeshSettings(
    cell_size=0.0625, cell_height=0.25, agent_height=1.75, agent_radius=0.125, agent_max_climb=0.5,
    agent_max_slope_deg=40.0, region_min_size=21.0, region_merge_size=22.0, edge_max_len=13.0, edge_max_error=1.375,
    verts_per_poly=5, detail_sample_dist=7.0, detail_sample_max_error=1.125, filter_low_hanging_obstacles=False,
    filter_ledge_spans=True, filter_walkable_low_height_spans=False,
)  # fmt: skip


def golden_file() -> bytes:
    """One square polygon of 2 m x 3 m, two detail triangles."""
    corners = [(1.0, 0.5, 2.0), (1.0, 0.5, 5.0), (3.0, 0.5, 5.0), (3.0, 0.5, 2.0)]
    tile = struct.pack("<iiiiiI", 0x444E4156, 7, 0, 0, 0, 0)
    tile += struct.pack("<8i", 1, 4, 4, 1, 0, 2, 0, 0)  # polygons, vertices, links, details, ..., detail triangles
    tile += struct.pack("<i3f", 1, 1.75, 0.125, 0.5)  # first off-mesh polygon, walkable height, radius, climb
    tile += struct.pack("<6ff", 1.0, 0.5, 2.0, 3.0, 0.5, 5.0, 16.0)
    for corner in corners:
        tile += struct.pack("<3f", *corner)
    tile += struct.pack("<I6H6HHBB", 0xFFFFFFFF, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 0)
    tile += bytes(12 * 4)  # links
    tile += struct.pack("<IIBBxx", 0, 0, 0, 2)
    tile += bytes([0, 1, 2, 5, 0, 2, 3, 20])  # edge flags: bits 0, 2, 4 mark outline edges
    head = struct.pack("<3i3f2f2i", 0x4D534554, 2, 1, 1.0, 0.5, 2.0, 2.0, 3.0, 1, 1)
    head += struct.pack("<13f3?", *astuple(GOLDEN_SETTINGS)) + b"\xcd"  # which is not initialised in some files
    return head + struct.pack("<Ii", 1, len(tile)) + tile


def test_a_golden_file_of_version_2_is_read_field_by_field_and_written_byte_by_byte(tmp_path):
    (tmp_path / "golden.navmesh").write_bytes(golden_file())
    mesh = read_navmesh(tmp_path / "golden.navmesh")
    assert mesh.settings == GOLDEN_SETTINGS
    assert mesh.polygons.tolist() == [[0, 1, 2, 3, -1, -1]]
    assert mesh.vertices.tolist() == [[1.0, 0.5, 2.0], [1.0, 0.5, 5.0], [3.0, 0.5, 5.0], [3.0, 0.5, 2.0]]
    assert mesh.detail_triangles.tolist() == [[0, 1, 2], [0, 2, 3]]
    write_navmesh(mesh, tmp_path / "again.navmesh")
    wanted = bytearray(golden_file())
    wanted[SET_BYTES + SETTINGS_BYTES - 1] = 0
    assert (tmp_path / "again.navmesh").read_bytes() == bytes(wanted)
