"""Steps and slides: Detour's answers replayed, and rooms where the answer is plain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from floors import SCENES, floor_plan, oracle, scene_mesh
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from gym_batchnav.navmesh.kernels.ground import nearest_polygon, snaps_to_island_of

ROOM = ["0000", "0..0", "0000"]


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_slides_as_detour_does(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    moves = oracle(data_dir, scene)["moves"]
    got, collided = mesh.move(np.array(moves["start"]), np.array(moves["end"]))
    stays = np.array(moves["end_other_island"], bool)
    wanted = np.where(stays[:, None], moves["start"], moves["result"])
    error = np.hypot(*(got - wanted)[:, [0, 2]].T)
    assert (error <= 1e-4).mean() >= 0.999
    height_known = np.array(moves["height_ok"], bool)
    assert (np.abs(got[:, 1] - np.array(moves["result_y"]))[height_known] <= 1e-4).mean() >= 0.999
    on_floor = np.abs(mesh.snap(np.array(moves["start"])) - moves["start"]).max(axis=1) <= 1e-4
    same = (error <= 1e-4) & height_known & on_floor & ~stays
    assert (collided == np.array(moves["collided"], bool))[same].mean() >= 0.999


@pytest.mark.data
@pytest.mark.parametrize("sliding", [True, False])
def test_stays_where_the_end_is_another_island(data_dir: Path, sliding: bool) -> None:
    count = 0
    for scene in SCENES:
        steps = oracle(data_dir, scene)["island_steps"]
        if steps["start"]:
            start = np.array(steps["start"], np.float32)
            got, collided = scene_mesh(data_dir, scene).move(start, np.array(steps["end"]), sliding)
            np.testing.assert_allclose(got, start, atol=2e-6)
            assert collided.all()
            count += len(start)
    assert count > 100


def test_slides_along_a_wall_or_stops_at_it() -> None:
    mesh = floor_plan(ROOM)
    start = np.array([[0.5, 0, 0.9]])
    end = np.array([[0.8, 0, 1.3]])
    free, collided = mesh.move(start, end)
    np.testing.assert_allclose(free, end, atol=1e-6)
    assert not collided
    start = np.array([[1.5, 0, 0.9]])  # into the block
    end = np.array([[1.8, 0, 1.3]])
    slid, collided = mesh.move(start, end)
    np.testing.assert_allclose(slid, [[1.8, 0, 1.0]], atol=1e-6)
    assert collided
    stopped, collided = mesh.move(start, end, sliding=False)
    np.testing.assert_allclose(stopped, [[1.575, 0, 1.0]], atol=1e-6)
    assert collided


def test_walking_off_a_wall_is_free() -> None:
    mesh = floor_plan(ROOM)
    for sliding in (True, False):
        at_wall, _ = mesh.move(np.array([[1.5, 0, 0.9]]), np.array([[1.8, 0, 1.3]]), sliding)
        back = at_wall.astype(np.float64) - [0, 0, 0.25]
        np.testing.assert_allclose(mesh.move(at_wall, back, sliding)[0], back, atol=1e-6)


def test_collides_by_habitats_test() -> None:
    mesh = floor_plan(["0"])
    start = np.array([[0.5, 0, 0.75]])
    end = np.array([[0.5, 0, 1.00001], [0.5, 0, 1.00004]])
    _, collided = mesh.move(np.repeat(start, 2, axis=0), end)
    np.testing.assert_array_equal(collided, [False, True])


def test_floors_above_each_other_are_kept_apart() -> None:
    mesh = floor_plan(["000"], ["33."])
    got, _ = mesh.move(np.array([[1.8, 3, 0.5], [1.8, 0, 0.5]]), np.array([[2.3, 3, 0.5], [2.3, 0, 0.5]]))
    np.testing.assert_allclose(got, [[2.0, 3, 0.5], [2.3, 0, 0.5]], atol=1e-6)


def test_height_follows_the_slope() -> None:
    mesh = floor_plan(["012"])
    got, _ = mesh.move(np.array([[1.5, 0.5, 0.5]]), np.array([[1.75, 0.5, 0.5]]))
    snapped = mesh.snap(got)
    np.testing.assert_allclose(got, snapped, atol=1e-6)
    assert got[0, 1] > 0.5


@pytest.mark.parametrize("sliding", [True, False])
def test_stays_where_start_or_end_is_nowhere_near_the_navmesh(sliding: bool) -> None:
    start = np.array([[90.0, 0, 0], [0.5, 0, 0.5], [0.5, 0, 0.5]])
    got, collided = floor_plan(ROOM).move(start, np.array([[90.2, 0, 0], [1.0, 0, -2.5], [1.0, 0, -1.5]]), sliding)
    np.testing.assert_array_equal(got[:2], start[:2])
    assert collided.all() and got[2, 2] == 0 and got[2, 0] > 0.5  # two metres from the end it still walks to the wall


def inside_a_square(points: np.ndarray) -> np.ndarray:
    """Whether points [N, 3] keep off the borders of a floor plan's squares: [N] bool."""
    return np.abs(points[:, [0, 2]] - np.round(points[:, [0, 2]])).min(axis=1) > 1e-4


@given(
    st.lists(st.text("00000.", min_size=6, max_size=6), min_size=6, max_size=6),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_never_leaves_the_floor_nor_its_island(rows: list[str], seed: int, sliding: bool) -> None:
    rows[0] = "000000"
    mesh = floor_plan(rows)
    rng = np.random.default_rng(seed)
    free = np.array([[letter == "0" for letter in row] for row in rows])
    position = mesh.random_points(20, rng)
    for _ in range(20):
        ends = position + rng.normal(0, 1.0, position.shape) * [1, 0, 1]
        moved, _ = mesh.move(position, ends, sliding)
        assert np.isfinite(moved).all()
        assert (
            np.hypot(*(moved - position)[:, [0, 2]].T) <= np.hypot(*(ends - position)[:, [0, 2]].T) * 2 + 0.01
        ).all()
        cells = [np.floor(moved[:, axis, None] + [-1e-5, 1e-5]).astype(int).clip(0, 5) for axis in (2, 0)]
        assert np.logical_or.reduce([free[cells[0][:, a], cells[1][:, b]] for a in (0, 1) for b in (0, 1)]).all()
        # Where islands touch in a point, a bare position does not say which of them it is on.
        inner = inside_a_square(position) & inside_a_square(moved)
        was, now = (mesh.polygon_island[mesh.snap_with_polygon(points)[1]] for points in (position, moved))
        np.testing.assert_array_equal(now[inner], was[inner])
        position = moved


@pytest.mark.data
@pytest.mark.parametrize("scene", ["aws_small_house", "aws_bookstore", "van_gogh_room"])
def test_the_island_below_a_blocked_end_is_that_of_the_full_search(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    rng = np.random.default_rng(0)
    ground = mesh.tables(mesh.random_points(1, rng)).ground
    islands = mesh.polygon_island
    start, polygon = mesh.random_points_and_polygons(1000, rng)
    ends = start.astype(np.float64) + rng.normal(0, 0.4, start.shape)
    rivals = 0

    @njit
    def both_searches(ground: Any, p: int, x: float, y: float, z: float) -> tuple[int, bool]:
        return nearest_polygon(ground, x, y, z)[0], snaps_to_island_of(ground, p, p, x, y, z)

    for p, end in zip(polygon.tolist(), ends, strict=True):
        nearest, agrees = both_searches(ground, p, *end)
        same = nearest >= 0 and islands[nearest] == islands[p]
        assert agrees == same
        rivals += not same
    assert rivals > 10
