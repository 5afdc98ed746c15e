"""The NavMesh and its questions, against Detour's answers and against plans whose answers are plain."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from floors import SCENES, floor_plan, mesh_of, oracle, scene_mesh

from gym_batchnav.navmesh import NavMesh

RNG = np.random.default_rng
EMPTY = mesh_of([], [])


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_snaps_as_detour_does(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    snaps = oracle(data_dir, scene)["snaps"]
    points, polygons = mesh.snap_with_polygon(np.array(snaps["query"]))
    np.testing.assert_allclose(points, np.array(snaps["snapped"]), atol=1e-3)
    assert (polygons == snaps["poly"]).mean() >= 0.99  # polygons may be equally far
    np.testing.assert_array_equal(mesh.is_navigable(np.array(snaps["query"])), np.array(snaps["navigable"], bool))


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_areas_and_islands(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    answers = oracle(data_dir, scene)
    assert mesh.navigable_area == pytest.approx(answers["navmesh"]["area_detail"], rel=1e-4)
    assert mesh.polygon_area_xz.sum() == pytest.approx(answers["navmesh"]["area_xz"], rel=1e-4)
    for island, wanted in zip(mesh.islands, answers["islands"], strict=True):
        assert island.area == pytest.approx(wanted["area_detail"], rel=1e-4)
        assert island.radius == pytest.approx(wanted["radius"], rel=1e-4)
        assert len(island.polygons) == wanted["polys"]


@pytest.mark.data
@pytest.mark.parametrize("scene", ["aws_small_house", "godot_living_room"])
def test_points_of_the_occupancy_grid(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    grid = np.load(data_dir / "fixtures" / scene / "occupancy.npz")
    nz, nx = grid["covered"].shape
    x, z = np.meshgrid(grid["origin_xz"][0] + np.arange(nx) * 0.1, grid["origin_xz"][1] + np.arange(nz) * 0.1)
    for height, navigable in zip(grid["heights"], grid["navigable"], strict=True):
        points = np.stack([x, np.full_like(x, height), z], axis=-1).reshape(-1, 3)
        assert (mesh.is_navigable(points).reshape(nz, nx) == navigable).mean() >= 0.999


@pytest.mark.data
def test_random_points_lie_in_their_polygons(data_dir: Path) -> None:
    mesh = scene_mesh(data_dir, "aws_small_house")
    points, polygons = mesh.random_points_and_polygons(20_000, RNG(0))
    np.testing.assert_allclose(mesh.snap(points), points, atol=1e-5)
    counts = np.bincount(polygons, minlength=mesh.num_polygons)
    expected = mesh.polygon_area_xz / mesh.polygon_area_xz.sum() * len(points)
    assert ((counts - expected) ** 2 / expected).sum() < mesh.num_polygons + 5 * np.sqrt(2 * mesh.num_polygons)
    on_second = mesh.random_points_and_polygons(50, RNG(1), island=1)[1]
    assert (mesh.polygon_island[on_second] == 1).all()


def test_random_points_are_uniform_in_a_polygon() -> None:
    hexagon = mesh_of([[1, 0, 0], [0, 0, 1], [0, 0, 3], [1, 0, 4], [2, 0, 3], [2, 0, 1]], [[0, 1, 2, 3, 4, 5]])
    points = hexagon.random_points(60_000, RNG(2))
    for low, high, area in ((0, 1, 1), (1, 2, 2), (2, 3, 2), (3, 4, 1)):
        part = ((points[:, 2] >= low) & (points[:, 2] < high)).mean()
        assert part == pytest.approx(area / 6, abs=0.01)
    assert points[:, 0].mean() == pytest.approx(1, abs=0.01)


def test_snap_prefers_the_floor_within_reach_of_a_climb() -> None:
    mesh = floor_plan(["00"], ["33"])
    on_floor = mesh.snap(np.array([[0.5, 0.15, 0.5], [0.5, 2.0, 0.5], [-0.5, 0.0, 0.5]]))
    np.testing.assert_allclose(on_floor, [[0.5, 0, 0.5], [0.5, 3, 0.5], [0, 0, 0.5]])
    nowhere = mesh.snap(np.array([[9.0, 0, 0], [0.5, 9, 0.5], [np.nan, 0, 0]]))
    assert np.isnan(nowhere).all()


def test_navigable_needs_the_height_too() -> None:
    mesh = floor_plan(["00"])
    points = np.array([[0.5, 0.4, 0.5], [0.5, 0.6, 0.5], [-0.005, 0, 0.5], [-0.02, 0, 0.5], [50, 0, 0]])
    np.testing.assert_array_equal(mesh.is_navigable(points), [True, False, True, False, False])
    assert mesh.is_navigable(points, max_y_delta=1.0)[1]


def test_distance_to_obstacle() -> None:
    mesh = floor_plan(["00000", "00000", "00.00", "00000", "00000"])
    points = np.array([[0.25, 0, 0.5], [1.5, 0, 1.5], [1.0, 0, 2.5], [0, 9, 0]])
    np.testing.assert_allclose(mesh.distance_to_obstacle(points), [0.25, np.sqrt(0.5), 1.0, np.nan], atol=1e-6)
    assert mesh.distance_to_obstacle(points[2:3], max_distance=0.3) == pytest.approx(0.3)


def test_top_down_map() -> None:
    mesh = floor_plan(["00", "0."], ["..", ".3"])
    whole = mesh.top_down_map(0.25)
    ground = mesh.top_down_map(0.25, height=0.0)
    assert whole.shape == ground.shape == (9, 9)
    assert whole.all()
    np.testing.assert_array_equal(ground, ~np.logical_and.outer(np.arange(9) > 4, np.arange(9) > 4))


def test_slopes_count_with_their_length() -> None:
    slope = mesh_of([[0, 0, 0], [0, 0, 4], [3, 4, 4], [3, 4, 0]], [[0, 1, 2, 3]])
    assert slope.navigable_area == pytest.approx(20)
    assert slope.polygon_area_xz.sum() == pytest.approx(12)
    assert slope.snap(np.array([[1.5, 0, 1]]))[0, 1] == pytest.approx(2)
    np.testing.assert_array_equal(slope.bounds, [[0, 0, 0], [3, 4, 4]])


def test_an_empty_navmesh_answers() -> None:
    point = np.zeros((1, 3))
    assert np.isnan(EMPTY.snap(point)).all()
    assert not EMPTY.is_navigable(point).any()
    assert EMPTY.geodesic_distance(point, point) == np.inf
    np.testing.assert_array_equal(EMPTY.move(point, point)[0], point)
    assert EMPTY.navigable_area == 0 and EMPTY.num_islands == 0 and not EMPTY.top_down_map().any()


def test_files_and_pickles_keep_everything(tmp_path: Path) -> None:
    mesh = floor_plan(["012", "0.2"])
    mesh.save(tmp_path / "plan.navmesh")
    start = np.array([[0.5, 0, 1.5]])
    goal = np.array([[2.5, 2, 1.5]])
    for copy in (
        NavMesh.load(tmp_path / "plan.navmesh"),
        pickle.loads(pickle.dumps(mesh)),
        NavMesh(replace(mesh.data)),
    ):
        assert copy.geodesic_distance(start, goal) == pytest.approx(mesh.geodesic_distance(start, goal))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vertices": np.zeros((9, 3))}, "vertices: float64"),
        ({"vertices": np.full((6, 3), np.nan, np.float32)}, "not finite"),
        ({"polygons": np.full((2, 6), 7, np.int32)}, "polygons: indices"),
        ({"polygons": np.array([[0, 1, -1, 2, 3, -1]] * 2, np.int32)}, "followed by -1"),
        ({"neighbours": np.full((2, 6), 2, np.int32)}, "neighbours: indices"),
        ({"neighbours": np.zeros((2, 6), np.int32)}, "edge that does not exist"),
        ({"neighbours": np.array([[1, -1, -1, -1, -1, -1], [-1] * 6], np.int32)}, "does not share its edge"),
        ({"detail_start": np.array([0, 3, 2], np.int32)}, "detail_start"),
        ({"polygon_island": np.zeros(3, np.int32)}, "polygon_island"),
    ],
)
def test_arrays_that_kernels_could_not_walk_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(floor_plan(["00"]).data, **change)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [0, 2, [0, 2]])
def test_an_end_that_is_nowhere_moves_nobody(axis, wrong):
    start = np.array([[0.5, 0, 0.5]])
    end = start.copy()
    end[0, axis] = wrong
    reached, collided = floor_plan(["00"]).move(start, end)
    np.testing.assert_allclose(reached, start)
    assert collided.all()


def test_an_end_far_above_the_floor_or_on_another_island_moves_nobody():
    mesh = floor_plan(["00.11"])
    start = np.array([[0.5, 0, 0.5]])
    for end, moves in (((1.5, 0.2, 0.5), True), ((1.5, 50, 0.5), False), ((3.5, 0, 0.5), False)):
        reached = mesh.move(start, np.array([end]))[0]
        assert (np.abs(reached - start).max() > 0.9) == moves, end
    stacked = floor_plan(["000"], ["..3"])
    np.testing.assert_array_equal(stacked.move(start, np.array([[2.5, 2.9, 0.5]]))[0], start)


def test_geodesic_arrays_kept_and_given_back_change_nothing():
    mesh = floor_plan(["00.00", "00000", "00.00"])
    other = NavMesh(mesh.data)
    other.use_geodesic_arrays(mesh.geodesic_arrays())
    rng = np.random.default_rng(0)
    starts = mesh.random_points(200, rng)
    goals = mesh.random_points(200, rng)
    np.testing.assert_array_equal(mesh.geodesic_distance(starts, goals), other.geodesic_distance(starts, goals))
    with pytest.raises(ValueError, match="between"):
        other.use_geodesic_arrays({k: v for k, v in mesh.geodesic_arrays().items() if k != "between"})


def test_a_map_of_tiny_cells_is_refused_with_the_cell_that_would_do() -> None:
    mesh = floor_plan(["0000", "0000"])
    with pytest.raises(ValueError, match=r"4 x 2 m would have 8e\+12 samples.*67,108,864") as caught:
        mesh.top_down_map(1e-6)
    least = float(str(caught.value).split("cell of ")[1].split(" m")[0])
    assert (4 / least + 1) * (2 / least + 1) < 1 << 26 < 8 / (0.8 * least) ** 2


def test_sight_ends_at_walls() -> None:
    mesh = floor_plan(["000", "0.0", "000"])
    headings = np.array([[0, np.pi / 2, np.pi, -np.pi / 2], [0, np.pi / 2, np.pi, -np.pi / 4]])
    points = np.array([[0.5, 0, 0.5], [0.5, 0, 2.5]])
    got = mesh.sight_distance(points, headings, 2.0)
    np.testing.assert_allclose(got, [[0.5, 0.5, 2, 2], [2, 0.5, 0.5, np.sqrt(0.5)]], atol=1e-6)
    assert (mesh.sight_distance(np.array([[90.0, 0, 0]]), np.zeros((1, 3)), 2.0) == 0).all()
    assert (mesh.sight_distance(points, headings, 0) == 0).all()


POINT = np.array([[0.5, 0, 0.5]])
PAIR = np.repeat(POINT, 2, axis=0)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda mesh: mesh.snap(np.zeros(3)), ValueError, r"\[N, 3\]"),
        (lambda mesh: mesh.geodesic_distance(PAIR, POINT), ValueError, "goals have the shape"),
        (lambda mesh: mesh.move(PAIR, POINT), ValueError, "ends have the shape"),
        (lambda mesh: mesh.random_points(5, 0), TypeError, "rng=0: pass a NumPy generator"),
        (lambda mesh: mesh.random_points(-1, RNG(0)), ValueError, "n=-1"),
        (lambda mesh: mesh.random_points(2.5, RNG(0)), TypeError, "n=2.5"),
        (lambda mesh: mesh.random_points(10**12, RNG(0)), ValueError, "n=1000000000000"),
        (lambda _: EMPTY.random_points(1, RNG(0)), ValueError, "empty"),
        (lambda mesh: mesh.distance_to_obstacle(POINT * np.nan), ValueError, "not finite"),
        (lambda mesh: mesh.distance_to_obstacle(POINT, max_distance=-1.0), ValueError, "max_distance"),
        (lambda mesh: mesh.distance_to_obstacle(POINT, max_distance=np.nan), ValueError, "max_distance"),
        (lambda mesh: mesh.top_down_map(0), ValueError, "cell=0"),
        (lambda mesh: mesh.top_down_map(height=np.nan), ValueError, "height=nan"),
        (lambda mesh: mesh.save("out.xyz"), ValueError, r"out\.xyz.*\.navmesh"),
        (lambda mesh: mesh.sight_distance(PAIR, np.zeros(2), 2.0), ValueError, "one row per point"),
        (lambda mesh: mesh.sight_distance(PAIR, np.zeros((3, 1)), 2.0), ValueError, "one row per point"),
        (lambda mesh: mesh.sight_distance(PAIR, np.full((2, 1), np.nan), 2.0), ValueError, "one row per point"),
        *(
            (lambda mesh, to=to: mesh.sight_distance(POINT, np.zeros((1, 1)), to), ValueError, f"^reach={to!r}: pass ")
            for to in (-1.0, np.nan, np.inf, "2", None, True)
        ),
    ],
)
def test_arguments_without_an_answer_are_refused_by_name(tmp_path: Path, monkeypatch, ask, error, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        ask(floor_plan(["00"]))
    assert not list(tmp_path.iterdir())
