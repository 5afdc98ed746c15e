"""Plans on maps, compared with Dijkstra's algorithm of SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from gym_batchnav.mapping import planning
from gym_batchnav.mapping.drawing import BLOCKED, BUMPED, Maps, Poses
from gym_batchnav.mapping.planning import BESIDE_BLOCKED, DIAGONAL, MOST_CELLS, STRAIGHT, Paths, follow_all

SIDE = 16
CELL = 0.2
KEPT = 64


def blank(cells, reach=1.0):
    maps = Maps(cells[None].astype(np.uint8), np.zeros((1, 3)), np.zeros(1, np.int32), np.zeros((1, 3)), CELL)
    paths = Paths(np.zeros((1, KEPT, 2), np.int16), maps.counts, np.zeros(1, np.int32), np.zeros((1, 2)), reach)
    return maps, paths


def place(column, row):
    """The point [3] in metres at the middle of a cell."""
    return np.array([(column - SIDE // 2) * CELL, 0.0, (row - SIDE // 2) * CELL])


def follow(maps, paths, position, goal, heading=0.0):
    out = np.zeros((1, 4), np.float32)
    rows = np.zeros(1, np.int64)
    zero = np.zeros(1)
    poses = Poses(position[None], np.array([heading]), rows, zero, zero, zero)
    follow_all(maps, paths, rows, poses, goal[None], out)
    return out[0]


def entering_costs(cells):
    blocked = np.pad(cells & BLOCKED > 0, 1)
    near = np.max([blocked[1 + z : 17 + z, 1 + x : 17 + x] for z in (-1, 0, 1) for x in (-1, 0, 1)], axis=0)
    return np.where(cells & BLOCKED > 0, planning.THROUGH_BLOCKED, np.where(near, BESIDE_BLOCKED, 0))


def cost_by_scipy(cells, start, goal):
    costs = entering_costs(cells)
    edges = []
    for z in range(SIDE):
        for x in range(SIDE):
            for dz in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    if (dx or dz) and 0 <= x + dx < SIDE and 0 <= z + dz < SIDE:
                        step = DIAGONAL if dx and dz else STRAIGHT
                        edges.append((z * SIDE + x, (z + dz) * SIDE + x + dx, step + costs[z + dz, x + dx]))
    rows, columns, weights = np.array(edges).T
    graph = coo_array((weights, (rows, columns)), (SIDE**2, SIDE**2)).tocsr()
    return dijkstra(graph, indices=start[1] * SIDE + start[0])[goal[1] * SIDE + goal[0]]


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 0.5))
def test_a_plan_costs_what_dijkstras_costs_and_its_cells_are_neighbours(seed, share):
    random = np.random.default_rng(seed)
    cells = np.where(random.random((SIDE, SIDE)) < share, BLOCKED, 0)
    start, goal = random.integers(0, SIDE, (2, 2))
    maps, paths = blank(cells)
    out = follow(maps, paths, place(*start), place(*goal))
    assert out[0] == pytest.approx(cost_by_scipy(cells, start, goal) * CELL / STRAIGHT, rel=1e-5)
    route = np.vstack([start, paths.cells[0, : maps.counts[0]]])
    assert (np.abs(np.diff(route, axis=0)).max(axis=1) == 1).all() if len(route) > 1 else True
    np.testing.assert_array_equal(route[-1], goal)


@pytest.mark.parametrize("heading", [-3.0, 0.0, 1.0])
def test_on_an_empty_map_the_way_is_the_straight_one(heading):
    maps, paths = blank(np.zeros((SIDE, SIDE), int), reach=10.0)
    start = place(8, 12)
    goal = place(11, 3) + np.array([0.03, 0, -0.02])
    out = follow(maps, paths, start, goal, heading)
    offset = goal - start
    assert out[1] == pytest.approx(np.hypot(offset[0], offset[2]), abs=1e-4)
    expected = np.arctan2(-offset[0], -offset[2]) - heading  # left positive from -z
    assert np.cos(expected) == pytest.approx(out[2], abs=1e-4) and np.sin(expected) == pytest.approx(out[3], abs=1e-4)


def test_a_path_is_kept_until_it_is_blocked_or_left_or_the_goal_moves():
    maps, paths = blank(np.zeros((SIDE, SIDE), int))
    goal = place(8, 1)
    follow(maps, paths, place(8, 14), goal)
    maps.cells[0, 7, 0] = BLOCKED  # beside the path: it is not planned again
    before = paths.cells[0].copy()
    follow(maps, paths, place(8, 13), goal)
    np.testing.assert_array_equal(paths.cells[0, :10], before[:10])
    maps.cells[0, 6, 8] = BLOCKED
    follow(maps, paths, place(8, 13), goal)
    assert [8, 6] not in paths.cells[0, : maps.counts[0]].tolist()
    follow(maps, paths, place(1, 13), goal)
    assert np.abs(paths.cells[0, 0] - [1, 13]).max() == 1
    follow(maps, paths, place(1, 13), place(14, 13))
    np.testing.assert_array_equal(paths.cells[0, maps.counts[0] - 1], [14, 13])


def test_a_goal_beyond_the_map_is_looked_for_at_its_border_and_at_the_goal_the_way_is_zero():
    maps, paths = blank(np.zeros((SIDE, SIDE), int))
    out = follow(maps, paths, place(8, 8), place(8, -30))
    assert out[2] == pytest.approx(1.0, abs=1e-5) and 0 < out[1] <= 1.01
    maps, paths = blank(np.zeros((SIDE, SIDE), int))
    np.testing.assert_allclose(follow(maps, paths, place(5, 5), place(5, 5)), [0, 0, 1, 0], atol=1e-6)


def test_the_largest_map_with_a_wall_across_it():
    cells = np.zeros((MOST_CELLS, MOST_CELLS), int)
    cells[MOST_CELLS // 2] = BLOCKED | BUMPED
    maps, paths = blank(cells)
    first, last = -MOST_CELLS // 2 * CELL, (MOST_CELLS // 2 - 1) * CELL
    out = follow(maps, paths, np.array([first, 0, last]), np.array([last, 0, first]))
    cost = (MOST_CELLS - 1) * DIAGONAL + planning.THROUGH_BUMPED + 2 * BESIDE_BLOCKED
    assert out[0] == pytest.approx(cost * CELL / STRAIGHT, rel=1e-5)
