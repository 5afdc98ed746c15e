"""Distances as Habitat computes them: against Detour's own answers, a slow twin, and drawn plans."""

from pathlib import Path

import numpy as np
import pytest
from detour_twin import twin_length, twin_path
from floors import SCENES, floor_plan, mesh_of, oracle, scene_mesh
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.navmesh import NavMesh
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.kernels.detour_path import MAX_CORRIDOR, MAX_NODES


def length_of(points: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(points.astype(np.float64), axis=0), axis=1).sum())


def rough_mesh(seed: int, size: int, jitter: float, widest: float = 1.0) -> NavMesh:
    """A grid of rectangles and triangles with holes; with jitter, its vertices are shifted and have random heights."""
    rng = np.random.default_rng(seed)
    row, column = np.divmod(np.arange((size + 1) ** 2), size + 1)
    x, z = np.cumsum(rng.choice([1.0, widest], (2, size + 1), p=[0.8, 0.2]), axis=1)
    x = x[column]
    z = z[row]
    shift = rng.uniform(-jitter, jitter, (3, len(x)))
    vertices = np.stack([x + shift[0], np.abs(shift[1]), z + shift[2]], axis=1)
    polygons = []
    for j, i in np.ndindex(size, size):
        a = j * (size + 1) + i
        square = [a, a + size + 1, a + size + 2, a + 1]
        kind = rng.choice(["hole", "square", "falling", "rising"], p=[0.25, 0.35, 0.2, 0.2])
        if kind == "square":
            polygons.append(square)
        elif kind != "hole":
            k = int(kind == "rising")
            p, q, r, s = square[k:] + square[:k]
            polygons += [[p, q, r], [p, r, s]]
    order = rng.permutation(len(polygons))
    return mesh_of(vertices.tolist(), [polygons[k] for k in order])


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_as_long_as_detours_paths(data_dir: Path, scene: str) -> None:
    answers = oracle(data_dir, scene)["pairs"]
    mesh = scene_mesh(data_dir, scene)
    start = np.array(answers["start"])
    goal = np.array(answers["end"])
    within = np.array(answers["default_limits_ok"], bool)
    got = mesh.geodesic_distance(start, goal, "detour")
    np.testing.assert_array_equal(np.isfinite(got), within)
    np.testing.assert_allclose(got[within], np.array(answers["detour"])[within], rtol=0, atol=1e-4)
    for k in np.flatnonzero(within):
        path = mesh.shortest_path(start[k], goal[k], "detour")
        np.testing.assert_allclose(path, answers["detour_points"][k], atol=1e-4)
        assert length_of(path[:, ::2]) == pytest.approx(answers["detour_xz"][k], abs=1e-4)
        assert length_of(path) == pytest.approx(got[k], rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from([0.0, 0.02, 0.2]))
def test_like_the_twin(seed: int, size: int, jitter: float) -> None:
    mesh = rough_mesh(seed, size, jitter)
    if not mesh.num_polygons:
        return
    points, polygons = mesh.random_points_and_polygons(12, np.random.default_rng(seed))
    corners = mesh.vertices[mesh.polygons[polygons, 1]]
    points = corners if seed % 2 else points
    points[0] = corners[0]
    got = mesh.geodesic_distance(points[:6], points[6:], "detour")
    wanted = [twin_length(mesh, a, b) for a, b in zip(points[:6], points[6:], strict=True)]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    for a, b in zip(points[:6], points[6:], strict=True):
        np.testing.assert_array_equal(mesh.shortest_path(a, b, "detour"), twin_path(mesh, a, b))


def test_longer_where_the_corridor_is_wrong() -> None:
    """Two ways lead around a block. The shorter one goes through edges whose midpoints lie far away."""
    left = [[0, -9], [0, 4], [1, 4], [1, 2], [1, 1], [1, -9]]
    right = [[9, -9], [9, 1], [9, 2], [9, 4], [10, 4], [10, -9]]
    vertices = [[x, 0, z] for x, z in left + right]
    above = [5, 4, 7, 6]
    below = [3, 2, 9, 8]
    mesh = mesh_of(vertices, [[0, 1, 2, 3, 4, 5], above, below, [6, 7, 8, 9, 10, 11]])
    start = np.array([0.5, 0, 1.3])
    goal = np.array([9.5, 0, 1.3])
    assert mesh.geodesic_distance(start[None], goal[None]) == pytest.approx(8 + 2 * np.hypot(0.5, 0.3), abs=1e-5)
    detour = mesh.geodesic_distance(start[None], goal[None], "detour")
    assert detour == pytest.approx(8 + 2 * np.hypot(0.5, 0.7), abs=1e-5)
    path = mesh.shortest_path(start, goal, "detour")
    np.testing.assert_allclose(path[:, ::2], [[0.5, 1.3], [1, 2], [9, 2], [9.5, 1.3]], atol=1e-6)


def test_the_longest_corridor() -> None:
    strip = floor_plan(["0" * (MAX_CORRIDOR + 1)])
    start = np.array([[0.5, 0, 0.5]] * 2)
    goal = start + np.array([[MAX_CORRIDOR - 1, 0, 0], [MAX_CORRIDOR, 0, 0]])
    assert strip.geodesic_distance(start, goal, "detour").tolist() == [MAX_CORRIDOR - 1, np.inf]
    assert len(strip.shortest_path(start[1], goal[1], "detour")) == 0
    assert strip.geodesic_distance(start[:1], goal[:1], "detour") == MAX_CORRIDOR - 1  # the search left nothing behind


@pytest.mark.parametrize("squares", [MAX_NODES, MAX_NODES + 1])
def test_the_most_nodes(squares: int) -> None:
    """The search visits a whole hall towards the goal before it takes the long way around."""
    width = 40
    way = 248  # squares of a walk that begins at the other side of the hall
    hall = squares - way
    rows = ["." + "0" * width for _ in range(hall // width)] + ["." + "0" * (hall % width)]
    plan = [[*row.ljust(130, ".")] for row in rows] + [["."] * 130 for _ in range(2)]
    walk = [(row, 0) for row in range(len(plan))] + [(len(plan) - 1, column) for column in range(1, 130)]
    walk += [(row, 129) for row in range(len(plan) - 2, -1, -1)]
    walk += [(0, column) for column in range(128, 0, -1)]
    for row, column in walk[:way]:
        assert not plan[row][column].isdigit()
        plan[row][column] = "0"
    mesh = floor_plan(["".join(row) for row in plan])
    assert mesh.num_polygons == squares and mesh.num_islands == 1
    end = walk[way - 1]
    start = np.array([[1.5, 0, 0.5]])
    goal = np.array([[end[1] + 0.5, 0, end[0] + 0.5]])
    assert np.isfinite(mesh.geodesic_distance(start, goal, "detour")) == (squares == MAX_NODES)
    assert np.isfinite(mesh.geodesic_distance(start, goal))


@pytest.mark.parametrize("size", [1, 15, 16, 700])
def test_a_batch_is_its_agents_one_by_one(size: int) -> None:
    meshes = [rough_mesh(seed, 8, 0.2) for seed in (1, 2)]
    navmeshes = NavMeshAgents(3)
    goals = [mesh.random_points(9, np.random.default_rng(5)) for mesh in meshes]
    first = np.array([0, 1, 4, 9])
    for slot, mesh in enumerate(meshes):
        navmeshes.set_slot(slot, mesh.tables(goals[slot], first_goal=first))
    rng = np.random.default_rng(size)
    slots = rng.integers(3, size=size).astype(np.int32)
    goal_set = rng.integers(4, size=size).astype(np.int32)  # there is no set 3
    position = np.zeros((size, 3), np.float32)
    polygon = np.zeros(size, np.int32)
    for slot, mesh in enumerate(meshes):
        here = slots == slot
        position[here], polygon[here] = mesh.random_points_and_polygons(int(here.sum()), rng)
    polygon[size // 2] = -1
    got = np.empty(size, np.float32)
    navmeshes.distance(slots, polygon, position, goal_set, got, method="detour")
    for i in range(size):
        if slots[i] == 2 or goal_set[i] == 3 or polygon[i] < 0:
            assert got[i] == np.inf
            continue
        members = goals[slots[i]][first[goal_set[i]] : first[goal_set[i] + 1]]
        lengths = meshes[slots[i]].geodesic_distance(np.repeat(position[i : i + 1], len(members), 0), members, "detour")
        assert got[i] == pytest.approx(lengths.min(), rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from([0.0, 0.02]))
def test_the_nearest_of_many_goals_is_the_smallest_of_their_distances(seed: int, size: int, jitter: float) -> None:
    mesh = rough_mesh(seed, size, jitter)
    if not mesh.num_polygons:
        return
    points, polygons = mesh.random_points_and_polygons(60, np.random.default_rng(seed))
    starts, goals = np.split(points, [10])
    first = np.array([0, 1, 10, 50])
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(goals, first_goal=first))
    zeros = np.zeros(10, np.int32)
    for goal_set in range(3):
        members = goals[first[goal_set] : first[goal_set + 1]]
        pairs = np.repeat(starts, len(members), 0), np.tile(members, (10, 1))
        wanted = mesh.geodesic_distance(*pairs, "detour").reshape(10, -1).min(axis=1)
        got = np.empty(10, np.float32)
        navmeshes.distance(zeros, polygons[:10], starts, zeros + np.int32(goal_set), got, "detour")
        np.testing.assert_array_equal(got, wanted.astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -3e38, 1e30])
def test_agents_that_are_nowhere_do_not_hang(value: float) -> None:
    mesh = floor_plan(["0000", "0..0", "0000"])
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(np.array([[2.5, 0, 2.5], [0.5, 0, 2.5]]), first_goal=np.array([0, 2])))
    position = np.array([[value, 0, 0.5], [0.5, 0, value], [0.5, 0, 0.5]], np.float32)
    out = np.empty(3, np.float32)
    zeros = np.zeros(3, np.int32)
    navmeshes.distance(zeros, zeros, position, zeros, out, "detour")
    assert out[2] == pytest.approx(mesh.geodesic_distance(position[2:], np.array([[0.5, 0, 2.5]]), "detour")[0])
    if not np.isfinite(value):
        assert np.isposinf(out[:2]).all()


def test_other_methods_are_refused() -> None:
    mesh = floor_plan(["00"])
    points = mesh.random_points(2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="method='Detour': choose one of 'exact', 'detour'"):
        mesh.geodesic_distance(points, points, "Detour")
    with pytest.raises(ValueError, match="method=None"):
        mesh.shortest_path(points[0], points[1], None)
    slots = np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="method='recast'"):
        NavMeshAgents(1).distance(slots, slots, points, slots, np.zeros(2, np.float32), "recast")
