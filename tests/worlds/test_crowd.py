"""Bodies that share a world: where they meet is known, nothing overlaps, and their order does not matter."""

import numba
import numpy as np
import pytest
from floors import floor_plan
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.worlds.crowd import MAX_OVERLAP, Crowd, separate

SIZE = 40  # metres of the square floor
R = 0.2


@pytest.fixture(scope="module")
def floor():
    mesh = floor_plan(["0" * SIZE] * SIZE)
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(mesh.random_points(1, np.random.default_rng(0))))
    return mesh, navmeshes


def separated(floor, start, end, *, radius=R, present=None, fixed=None, height=1.5):
    """Let the bodies of one world, or of [W] worlds, move from start to end, [B, 2] or [W, B, 2] metres; return the
    positions reached and whether each was stopped."""
    mesh, navmeshes = floor
    start, end = (np.asarray(one, np.float32) for one in (start, end))
    shape = start.shape[:-1] if start.ndim == 3 else (1, *start.shape[:-1])
    positions = [np.zeros((*shape, 3), np.float32) for _ in range(2)]
    for position, points in zip(positions, (start, end), strict=True):
        position[..., 0::2] = points.reshape(*shape, 2)
    snapped = [mesh.snap_with_polygon(position.reshape(-1, 3)) for position in positions]
    (old, old_polygon), (new, polygon) = ((p.reshape(*shape, 3).copy(), k.reshape(shape).copy()) for p, k in snapped)
    present = np.ones(shape, bool) if present is None else np.array(present).reshape(shape)
    fixed = np.zeros(shape[1], bool) if fixed is None else np.array(fixed)
    radius = np.broadcast_to(np.asarray(radius, float), shape[1]).copy()
    slot, touched = np.zeros(shape[0], np.int32), np.ones(shape, bool)
    crowd = Crowd(slot, present, fixed, radius, height, old_polygon, old, polygon, new, touched)
    separate(navmeshes, crowd)
    reached = crowd.position[..., 0::2]
    return (reached, crowd.touched) if start.ndim == 3 else (reached[0], crowd.touched[0])


AHEAD = 0.5 - np.sqrt((2 * R) ** 2 - 0.3**2)  # to where one meets another 0.3 m aside
MEETINGS = {  # starts, ends, which are fixed, ends reached, and who was stopped
    "head-on": ([[10, 10], [11, 10]], [[10.5, 10]] * 2, [False] * 2, [[10.5 - R, 10], [10.5 + R, 10]], [True] * 2),
    "at one that stands": (
        *([[10, 10], [10.5, 10.3]], [[11, 10], [10.5, 10.3]], [False] * 2),
        *([[10 + AHEAD, 10], [10.5, 10.3]], [True, False]),
    ),
    "after one at the same speed": (
        *([[10, 10], [10.41, 10]], [[10.25, 10], [10.66, 10]], [False] * 2),
        *([[10.25, 10], [10.66, 10]], [False] * 2),
    ),
    "at others that part and pass along": (
        *([[10, 10], [10 + 2 * R, 10], [15, 10], [15 + 2 * R, 10]], [[9.8, 10], [10.7, 10], [15, 10.25], [15.4, 9.75]]),
        *([False] * 4, [[9.8, 10], [10.7, 10], [15, 10.25], [15.4, 9.75]], [False] * 4),
    ),
    "the first is stopped by a fixed body and stops the second": (
        *([[10.0, 10], [9.55, 10], [10.4, 10]], [[10.25, 10], [9.8, 10], [10.4, 10]], [False, False, True]),
        *([[10, 10], [9.6, 10], [10.4, 10]], [True, True, False]),
    ),
}


@pytest.mark.parametrize(("start", "end", "fixed", "expected", "stopped"), MEETINGS.values(), ids=MEETINGS)
def test_bodies_stop_where_they_meet(floor, start, end, fixed, expected, stopped):
    reached, touched = separated(floor, start, end, fixed=fixed)
    np.testing.assert_allclose(reached, expected, atol=1e-5)
    assert touched.tolist() == stopped


def test_nobody_passes_through_another_in_one_long_step(floor):
    reached, touched = separated(floor, [[10, 10], [20, 10]], [[20, 10], [10, 10]])
    assert reached[0, 0] < reached[1, 0] and touched.all()
    np.testing.assert_allclose(reached[1, 0] - reached[0, 0], 2 * R, atol=1e-5)


def test_absent_bodies_and_other_floors_do_not_matter(floor):
    crossing = [[10, 10], [11, 10]], [[11, 10], [10, 10]]
    assert not separated(floor, *crossing, present=[True, False])[1].any()
    assert not separated(floor, *crossing, height=0.0)[1].any()


def test_a_fixed_body_goes_its_way(floor):
    reached, _ = separated(floor, [[10, 10], [11, 10]], [[10.5, 10], [10.2, 10]], fixed=[False, True])
    np.testing.assert_allclose(reached[1], [10.2, 10], atol=1e-5)
    assert reached[0, 0] <= 10.0 + 1e-5


places = st.lists(
    st.tuples(*[st.floats(0, 3, width=32)] * 2, st.floats(-0.5, 0.5, width=32), st.floats(-0.5, 0.5, width=32)),
    min_size=2,
    max_size=10,
)


def overlap(points, radius):
    gap = np.linalg.norm(points[:, None] - points[None], axis=2) - radius[:, None] - radius[None]
    gap[np.arange(len(points)), np.arange(len(points))] = np.inf
    return np.maximum(0, -gap)


@given(places, st.randoms(use_true_random=False))
def test_nothing_overlaps_more_than_before_and_order_does_not_matter(floor, given_places, random):
    values = np.array(given_places, np.float32)
    start = values[:, :2] + np.float32(15)
    end = start + values[:, 2:]
    radius = np.array([random.choice([0.1, 0.2, 0.3]) for _ in values])
    reached, touched = separated(floor, start, end, radius=radius)
    before, after = overlap(start.astype(float), radius), overlap(reached.astype(float), radius)
    assert (after <= np.maximum(before, MAX_OVERLAP) + 1e-6).all()
    assert (reached[~touched] == end[~touched]).all()
    order = np.array(random.sample(range(len(values)), len(values)))
    again, touched_again = separated(floor, start[order], end[order], radius=radius[order])
    np.testing.assert_array_equal(again, reached[order])
    np.testing.assert_array_equal(touched_again, touched[order])


def test_threads_do_not_matter(floor):
    rng = np.random.default_rng(0)
    start = rng.uniform(5, 9, (100, 8, 2))
    end = start + rng.uniform(-0.4, 0.4, start.shape)
    parallel = separated(floor, start, end)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        serial = separated(floor, start, end)
    finally:
        numba.set_num_threads(threads)
    for one, other in zip(parallel, serial, strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0.05 < parallel[1].mean() < 0.95


def test_arrays_that_kernels_cannot_read_are_refused(floor):
    polygon, places, flags = np.zeros((1, 2), np.int32), np.zeros((1, 2, 3), np.float32), np.ones((1, 2), bool)
    wrong = places.astype(np.float64)
    crowd = Crowd(polygon[0, :1], flags, flags[0], np.full(2, R), 1.5, polygon, places, polygon, wrong, flags)
    with pytest.raises(TypeError, match="position is float64"):
        separate(floor[1], crowd)
