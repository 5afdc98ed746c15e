"""NavMeshData: what could lead a kernel outside its arrays cannot be constructed, and costs are bounded before."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from floors import floor_plan, mesh_of
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.navmesh.detour import MAX_FILE_BYTES, read_navmesh
from gym_batchnav.navmesh.kernels import cells, ground, tables, visibility
from gym_batchnav.navmesh.record import NavMeshSettings

# Seen from above with x to the right and z down; outlines run as Recast's: (0, 0), (0, 1), (1, 1), (1, 0).
ZIGZAG = [[0, 0, 0], [0.1, 0, 2], [0, 0, 4], [10, 0, 4.5], [9.9, 0, 2], [10, 0, -0.5]]
BOW_TIE = [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
SQUARE = [[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("corners", "message"),
    [
        (ZIGZAG, "not convex"),
        (BOW_TIE, "not convex|crosses itself|wrong way"),
        (SQUARE[::-1], "winds the wrong way"),
        ([[0, 0, 0], [0, 0, 1], [0, 0, 2]], "has no area|crosses itself|wrong way"),
        ([[1, 0, 1]] * 3, "no area"),
        # A pentagram turns one way at every corner, but by two full turns.
        ([[np.sin(4 * np.pi * k / 5), 0, np.cos(4 * np.pi * k / 5)] for k in range(5)], "crosses itself"),
        (np.multiply(SQUARE, 1e7).tolist(), "the limit is 1e\\+06 m"),
        (np.multiply(SQUARE, 1e38).tolist(), "the limit is 1e\\+06 m"),
    ],
)
def test_polygons_that_kernels_cannot_walk_are_refused(corners: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mesh_of(corners, [list(range(len(corners)))])


def test_a_square_is_accepted_wherever_float32_resolves_it() -> None:
    for shift in (0.0, 1e3, -8e3, 1e5):
        assert mesh_of(np.add(SQUARE, [shift, 0, -shift]).tolist(), [[0, 1, 2, 3]]).num_polygons == 1


@given(
    points=st.lists(st.tuples(st.floats(-5, 5, width=32), st.floats(-5, 5, width=32)), min_size=3, max_size=6),
    cell=st.sampled_from([0.1, 0.37, 1.0]),
)
def test_whatever_is_accepted_is_cut_within_its_arrays(points: list[tuple[float, float]], cell: float) -> None:
    """Pieces of an accepted polygon have at most ten corners, as the kernel's scratch assumes."""
    try:
        mesh = mesh_of([[x, 0, z] for x, z in points], [list(range(len(points)))])
    except ValueError:
        return
    tables_ = mesh.tables(np.zeros((0, 3)))
    low = tables_.ground.frame[:2]
    size, nz, nx = ground.fit_grid(tables_.ground.boxes, low, low + 10, cell, 1 << 10, 1 << 10)
    buckets, candidates = ground.bucket_boxes(tables_.ground.boxes, low[0], low[1], size, nz, nx)
    _, _, start = cells._cut(tables_.ground, low[0], low[1], size, buckets, candidates)
    assert np.diff(start).max(initial=0) <= 10


def test_a_neighbour_must_share_the_edge_and_the_island() -> None:
    data = floor_plan(["000"]).data
    across = data.neighbours.copy()
    across[0, across[0] >= 0] = 2
    across[2, across[2] >= 0] = 0
    with pytest.raises(ValueError, match="does not share its edge"):
        replace(data, neighbours=across)
    with pytest.raises(ValueError, match="different islands"):
        replace(data, polygon_island=np.array([0, 0, 1], np.int32))


def test_overlapping_floors_stay_within_the_limits_of_their_grids() -> None:
    storeys = 1000
    corners = [[x, 3 * k, z] for k in range(storeys) for x, z in ((0, 0), (0, 100), (100, 100), (100, 0))]
    mesh = mesh_of(corners, [[4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3] for k in range(storeys)])
    made = mesh.tables(np.array([[50.0, 30, 50]]))
    assert made.nbytes < 100 << 20
    assert len(made.cells.pieces) - 1 <= cells.MAX_PIECES
    np.testing.assert_array_equal(mesh.snap_with_polygon(np.array([[70.0, 2999 - 2, 20]]))[1], [999])


def test_too_many_corners_are_refused_before_their_table_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ["000", "0.0", "000"]
    monkeypatch.setattr(visibility, "MAX_CORNERS", 3)
    with pytest.raises(ValueError, match=r"4 corners, more than 3.*larger cell_size"):
        floor_plan(plan).tables(np.zeros((0, 3)))
    monkeypatch.setattr(visibility, "MAX_CORNERS", 4)
    monkeypatch.setattr(visibility, "MAX_RELAXATIONS", 4)
    with pytest.raises(ValueError, match="more than 1 lines of sight"):
        floor_plan(plan).tables(np.zeros((0, 3)))


def test_lists_that_are_too_long_get_coarser_cells_and_the_same_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ["00000", "0.0.0", "00000"]
    goals = np.array([[0.5, 0, 0.5]])
    fine = floor_plan(plan).tables(goals)
    monkeypatch.setattr(cells, "MAX_LISTED", len(fine.cells.listed) // 3)
    coarse = floor_plan(plan).tables(goals)
    assert len(coarse.cells.listed) <= cells.MAX_LISTED
    np.testing.assert_array_equal(fine.goals.field, coarse.goals.field)
    monkeypatch.setattr(cells, "MAX_LISTED", 1)
    with pytest.raises(ValueError, match="larger cell_size"):
        floor_plan(plan).tables(goals)


def test_too_many_goals_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_GOAL_BYTES", 100)
    with pytest.raises(ValueError, match="fewer episodes"):
        floor_plan(["000", "0.0", "000"]).tables(np.full((50, 3), 0.5))


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.navmesh"
    with huge.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(ValueError, match=f"more than {MAX_FILE_BYTES:,} bytes"):
        read_navmesh(huge)
    with pytest.raises(ValueError, match="not a regular file"):
        read_navmesh(tmp_path)


def test_numbers_of_numpy_in_settings_become_plain_for_json_and_the_keys_of_caches() -> None:
    settings = NavMeshSettings(agent_radius=np.float32(0.25), verts_per_poly=np.int64(5), filter_ledge_spans=np.False_)
    plain = NavMeshSettings(agent_radius=0.25, verts_per_poly=5, filter_ledge_spans=False)
    assert repr(settings) == repr(plain) and json.loads(json.dumps(asdict(settings))) == asdict(plain)
    with pytest.raises(ValueError, match="agent_height='1': pass a number"):
        NavMeshSettings(agent_height="1")  # type: ignore[arg-type]
