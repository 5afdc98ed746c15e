"""Shortest paths, against exact answers of other software and a brute-force graph on drawn plans."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from floors import SCENES, floor_plan, mesh_of, oracle, plan_distance, scene_mesh
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.navmesh import NavMesh
from gym_batchnav.navmesh.kernels import visibility

FLAT = np.array([1, 0, 1], np.float32)


def path_length(path: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(path.astype(np.float64), axis=0), axis=1).sum())


def pairs(data_dir: Path, scene: str) -> tuple[NavMesh, np.ndarray, np.ndarray, dict]:
    answers = oracle(data_dir, scene)["pairs"]
    return scene_mesh(data_dir, scene), np.array(answers["start"]), np.array(answers["end"]), answers


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_exact_seen_from_above(data_dir: Path, scene: str) -> None:
    mesh, start, goal, answers = pairs(data_dir, scene)
    if len({round(floor["height"]) for floor in oracle(data_dir, scene)["floors"]}) > 1:
        start = mesh.snap(start)  # flattened, storeys would lie in each other
        goal = mesh.snap(goal)
        got = np.array([path_length(mesh.shortest_path(a, b) * FLAT) for a, b in zip(start, goal, strict=True)])
    else:
        data = mesh.data
        flat = NavMesh(replace(data, vertices=data.vertices * FLAT, detail_vertices=data.detail_vertices * FLAT))
        got = flat.geodesic_distance(start * FLAT, goal * FLAT)
    exact = np.array(answers["exact_xz"])
    assert np.abs(got - exact).mean() <= 1e-3
    assert (np.abs(got - exact) <= np.maximum(0.005 * exact, 0.05)).all()


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_exact_in_space_and_symmetric(data_dir: Path, scene: str) -> None:
    mesh, start, goal, answers = pairs(data_dir, scene)
    got = mesh.geodesic_distance(start, goal)
    exact = np.array(answers["exact"])
    assert (got <= exact + 1e-4).all()  # the oracle measures the path that is shortest from above, we the shortest
    assert (exact - got <= np.maximum(0.005 * exact, 0.05)).all()
    assert (got <= np.array(answers["detour"]) * 1.001 + 0.05).all()
    np.testing.assert_allclose(mesh.geodesic_distance(goal, start), got, rtol=1e-6)
    assert (got >= np.linalg.norm(goal - start, axis=1) - 1e-4).all()


@pytest.mark.data
@pytest.mark.parametrize("scene", ["aws_bookstore", "godot_room"])
def test_paths_are_as_long_as_the_distance_and_walkable(data_dir: Path, scene: str) -> None:
    mesh, start, goal, _ = pairs(data_dir, scene)
    distance = mesh.geodesic_distance(start, goal)
    for k in range(0, len(start), 7):
        path = mesh.shortest_path(start[k], goal[k])
        np.testing.assert_allclose(path[[0, -1]], mesh.snap(np.stack([start[k], goal[k]])))
        assert path_length(path) == pytest.approx(distance[k], rel=1e-5)
        rest = [path_length(path[i:]) for i in range(len(path))]
        got = mesh.geodesic_distance(path, np.repeat(path[-1:], len(path), axis=0))
        np.testing.assert_allclose(got, rest, atol=2e-3)  # every part of a shortest path is one


def test_around_a_block() -> None:
    mesh = floor_plan(["000", "0.0", "000"])
    start = np.array([0.5, 0, 1.5])
    goal = np.array([2.5, 0, 1.5])
    path = mesh.shortest_path(start, goal)
    assert len(path) == 4 and path_length(path) == pytest.approx(1 + 2 * np.sqrt(0.5), abs=1e-6)
    assert mesh.geodesic_distance(start[None], goal[None]) == pytest.approx(path_length(path))


def test_no_path_and_no_way() -> None:
    mesh = floor_plan(["0.0"])
    start = np.array([0.5, 0, 0.5])
    goal = np.array([2.5, 0, 0.5])
    assert mesh.shortest_path(start, goal).shape == (0, 3)
    assert mesh.geodesic_distance(start[None], goal[None]) == np.inf
    assert mesh.geodesic_distance(start[None], goal[None] + 99) == np.inf
    assert mesh.geodesic_distance(start[None], start[None]) == 0


def test_no_path_through_a_point() -> None:
    mesh = floor_plan(["0.", ".0"])
    touching = mesh.geodesic_distance(np.array([[0.5, 0, 0.5]]), np.array([[1.5, 0, 1.5]]))
    assert touching == np.inf
    around = floor_plan(["0.000", ".0..0", "00..0", "0...0", "00000"])  # the pinch at (1, 1) stays shut
    assert around.geodesic_distance(np.array([[1.5, 0, 1.5]]), np.array([[0.5, 0, 0.5]])) == np.inf
    joined = floor_plan(["00.", "0.0", "000"]).geodesic_distance(np.array([[1.5, 0, 0.5]]), np.array([[2.5, 0, 1.5]]))
    assert joined == pytest.approx(2 + 2 * np.hypot(0.5, 0.5), abs=1e-4)


def test_storeys_do_not_see_each_other() -> None:
    """A ramp joins two storeys that lie above each other."""
    lower = floor_plan(["000"])
    upper = [[0, 3, 0], [0, 3, 1], [3, 3, 1], [3, 3, 0]]
    vertices = [*lower.vertices.tolist(), *upper, [6, 1.5, 0], [6, 1.5, 1]]
    squares = [row[row >= 0].tolist() for row in lower.polygons]
    n = len(lower.vertices)
    right = [int(np.flatnonzero((lower.vertices == [3, 0, z]).all(axis=1))[0]) for z in (0, 1)]
    mesh = mesh_of(vertices, [*squares, [n, n + 1, n + 2, n + 3], [right[0], right[1], n + 5, n + 4]])
    below = np.array([[0.5, 0, 0.5]])
    above = np.array([[0.5, 3, 0.5]])
    assert mesh.geodesic_distance(below, above) == np.inf
    assert mesh.geodesic_distance(below, np.array([[6, 1.5, 0.5]])) == pytest.approx(
        2.5 + np.hypot(3, 1.5), abs=0.2
    )  # chords cut below the bend of a slope


@given(st.lists(st.text("000.", min_size=7, max_size=7), min_size=7, max_size=7), st.integers(0, 2**32 - 1))
def test_drawn_plans_against_brute_force(rows: list[str], seed: int) -> None:
    rows[3] = "0000000"
    mesh = floor_plan(rows)
    points = mesh.random_points(8, np.random.default_rng(seed))
    got = mesh.geodesic_distance(points[:4], points[4:])
    wanted = [plan_distance(rows, a[[0, 2]], b[[0, 2]]) for a, b in zip(points[:4], points[4:], strict=True)]
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_lines_of_sight_that_cannot_be_followed_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    make_sight = visibility.make_sight

    def make_small_sight(num_polygons: int, num_corners: int) -> visibility.Sight:
        sight = make_sight(num_polygons, num_corners)
        return sight._replace(cones=sight.cones[:1], entered=sight.entered[:1])

    monkeypatch.setattr(visibility, "make_sight", make_small_sight)
    mesh = floor_plan(["00000", "0.000", "00000"])
    with pytest.raises(ValueError, match="lines of sight could not be followed"):
        mesh.geodesic_distance(np.array([[0.5, 0, 0.5]]), np.array([[4.5, 0, 2.5]]))
