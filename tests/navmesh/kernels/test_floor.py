"""The visible floor under a navmesh, against a slow twin and in scenes whose floor is known."""

from __future__ import annotations

import numpy as np
import pytest
from floors import floor_plan, indexed
from hypothesis import given
from hypothesis import strategies as st
from rays import highest_surface
from rooms import box

from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.kernels import floor
from gym_batchnav.navmesh.mesh import NavMesh

CLIMB = 0.2  # metres, of the default settings


def slab(x: tuple[float, float], z: tuple[float, float], height: float) -> np.ndarray:
    """A level rectangle [2, 3, 3]."""
    corners = [[x[0], height, z[0]], [x[0], height, z[1]], [x[1], height, z[1]], [x[1], height, z[0]]]
    return np.array(corners, np.float32)[[[0, 1, 2], [0, 2, 3]]]


def drop_of(navmesh: NavMesh, parts: list[np.ndarray], points: np.ndarray) -> np.ndarray:
    """Metres [N] from the navmesh down to the visible floor at points [N, 3]."""
    snapped = navmesh.snap(points)
    return snapped[:, 1] - navmesh.visible_floor(points, navmesh.drops(*indexed(*parts)))[:, 1]


def test_the_floor_is_the_highest_surface_within_reach() -> None:
    navmesh = floor_plan(["00000000"])  # at height 0
    parts = [
        slab((-1, 9), (-1, 2), -0.15),  # a floor
        slab((2, 3), (-1, 2), -0.14),  # a rug on it
        slab((3, 4), (-1, 2), 0.1),  # a low platform
        slab((4, 5), (-1, 2), 0.75),  # a table top
        slab((-1, 9), (-1, 2), -2.8),  # the storey below
        slab((5, 6), (-1, 2), -0.05)[:, ::-1],  # seen from its back
    ]
    points = np.array([[x, 0.0, 0.5] for x in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5)])
    np.testing.assert_allclose(drop_of(navmesh, parts, points), [0.15, 0.15, 0.14, -0.1, 0.15, 0.05, 0.15], atol=1e-6)


def test_there_is_no_drop_over_a_hole_or_without_a_scene() -> None:
    navmesh = floor_plan(["0000"])
    points = np.array([[0.5, 0, 0.5], [3.5, 0, 0.5]])
    np.testing.assert_array_equal(drop_of(navmesh, [slab((2, 5), (-1, 2), -0.1)], points), np.float32([0, 0.1]))
    np.testing.assert_array_equal(drop_of(navmesh, [slab((2, 5), (-1, 2), -5)], points), [0, 0])
    np.testing.assert_array_equal(drop_of(navmesh, [np.zeros((0, 3, 3), np.float32)], points), [0, 0])
    agents = NavMeshAgents(1)
    agents.set_slot(0, navmesh.tables(points))
    snapped, polygon = navmesh.snap_with_polygon(points)
    np.testing.assert_array_equal(agents.visible_floor(np.zeros(2, np.int32), polygon, snapped), snapped)


def test_storeys_above_each_other_have_floors_of_their_own() -> None:
    navmesh = floor_plan(["00"], ["44"])
    parts = [slab((-1, 3), (-1, 2), -0.1), slab((-1, 3), (-1, 2), 3.7)]
    np.testing.assert_allclose(drop_of(navmesh, parts, np.array([[1.5, 0, 0.5], [1.5, 4, 0.5]])), [0.1, 0.3], atol=1e-6)


def test_a_slope_is_smooth_and_a_step_is_sharp() -> None:
    navmesh = floor_plan(["0000"])
    ramp = slab((-1, 5), (-1, 2), 0.0)
    ramp[..., 1] = -0.1 - 0.05 * ramp[..., 0]
    x = np.linspace(0.1, 3.9, 4001)
    points = np.stack([x, np.zeros_like(x), np.full_like(x, 0.37)], axis=1)
    np.testing.assert_allclose(drop_of(navmesh, [ramp], points), 0.1 + 0.05 * x, atol=1e-5)
    step = [slab((-1, 2.01), (-1, 2), -0.05), slab((2.01, 5), (-1, 2), -0.25)]
    drop = drop_of(navmesh, step, points)
    assert set(np.round(drop, 5)) == {np.float32(0.05), np.float32(0.25)}
    assert np.abs(x[np.argmax(drop > 0.1)] - 2.01) <= floor.NODE_CELL / 2 + 1e-3


def slow_drop(navmesh: NavMesh, drops: floor.Drops, parts: list[np.ndarray], polygon: int, x: float, z: float) -> float:
    """Twin of ``make_drops`` with ``drop_at`` for square polygons on the level at height 0."""
    low = navmesh.vertices[navmesh.polygons[polygon][:4]].min(axis=0)
    cell = float(drops.cell[0])
    high = navmesh.vertices[navmesh.polygons[polygon][:4]].max(axis=0)
    i, j = (min(int((at - start) / cell), int(np.ceil(1 / cell)) - 1) for at, start in ((x, low[0]), (z, low[2])))
    nodes = np.zeros((2, 2))
    for row in range(2):
        for column in range(2):
            node_x = min(low[0] + (i + column) * cell, high[0])
            node_z = min(low[2] + (j + row) * cell, high[2])
            found = highest_surface(np.concatenate(parts).astype(float), np.array([node_x, CLIMB, node_z]))
            nodes[row, column] = -found if found >= -CLIMB - 0.4 else 0.0
    u = (x - low[0]) / cell - i
    v = (z - low[2]) / cell - j
    if np.ptp(nodes) > cell:
        return float(nodes[int(v >= 0.5), int(u >= 0.5)])
    return float(np.array([1 - v, v]) @ nodes @ np.array([1 - u, u]))


@given(seed=st.integers(0, 10**6))
def test_it_equals_its_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    navmesh = floor_plan(["000", "0.0", "000"])
    crates = [box((x, -0.3, 1.207), (x + 0.31, 0.1, 1.893)) for x in (0.213, 2.013)]  # no edge hits a node
    soup = np.concatenate([rng.uniform(-0.5, 3.5, (30, 3, 3)), *crates])
    soup[:30, :, 1] = rng.uniform(-0.8, 0.4, (30, 3))
    parts = [slab((0.207, 3.5), (-1, 4), -0.125), soup.astype(np.float32)]
    drops = navmesh.drops(*indexed(*parts))
    points = navmesh.random_points(20, rng)
    snapped, polygons = navmesh.snap_with_polygon(points)
    got = snapped[:, 1] - navmesh.visible_floor(points, drops)[:, 1]
    want = [
        slow_drop(navmesh, drops, parts, polygon, float(x), float(z))
        for polygon, (x, _, z) in zip(polygons, snapped, strict=True)
    ]
    np.testing.assert_allclose(got, want, atol=1e-4)


def test_costs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "MAX_TESTS", 1 << 20)
    pile = np.repeat(slab((-1, 2), (-1, 2), -0.1), 5000, axis=0)
    drops = floor_plan(["0"]).drops(*indexed(pile))
    assert 4 <= len(drops.drop) <= floor.MAX_TESTS / len(pile)
    np.testing.assert_allclose(drops.drop, 0.1, atol=1e-6)
    monkeypatch.setattr(floor, "MAX_NODES", 1 << 15)
    drops = floor_plan(["0" * 20] * 20).drops(*indexed(slab((0, 20), (0, 20), 0.0)))
    assert len(drops.drop) <= floor.MAX_NODES and drops.cell[0] > floor.NODE_CELL


def test_drops_that_are_damaged_or_of_another_navmesh_are_refused() -> None:
    navmesh = floor_plan(["00"])
    drops = navmesh.drops(*indexed(slab((-1, 3), (-1, 2), -0.1)))
    navmesh.check_drops(drops)
    for name, bad in (
        ("size", drops.size * 2),
        ("size", -drops.size),
        ("drop", drops.drop[:-1]),
        ("drop", drops.drop * np.float32(np.nan)),
        ("cell", np.zeros(1)),
        ("start", np.zeros_like(drops.start)),
    ):
        with pytest.raises(ValueError, match=r"Drops"):
            navmesh.check_drops(drops._replace(**{name: bad}))
    with pytest.raises(ValueError, match=r"Drops start"):
        floor_plan(["00000", "0   0", "00000"]).visible_floor(np.zeros((1, 3)), drops)
