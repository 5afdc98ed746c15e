"""The shortest-path follower reaches its goals on nearly shortest ways."""

from pathlib import Path

import numpy as np
import pytest
from floors import floor_plan, scene_mesh

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.library.sources import shipped_scenes
from gym_batchnav.navmesh import NavMesh
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import AgentState, StepOutcome


def walk(
    mesh: NavMesh,
    start: np.ndarray,
    goals: np.ndarray,
    *,
    turn_deg: float,
    radius: float,
    sliding: bool,
    forward_step: float = 0.25,
    heading: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Follow from every start to its goal, with headings at random where none are given.

    Returns:
        Distance at the start, distance where the follower stopped (inf if it did not), path length, each [N].
    """
    size = len(start)
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(goals))
    position, polygon = mesh.snap_with_polygon(start)
    slots = np.zeros(size, np.int32)
    goal_index = np.arange(size, dtype=np.int32)
    if heading is None:
        heading = np.random.default_rng(0).uniform(-np.pi, np.pi, size).astype(np.float32)
    first = np.zeros(size, np.float32)
    last = np.zeros(size, np.float32)
    path = np.zeros(size)
    active = np.ones(size, bool)
    moved = np.zeros(size, np.float32)
    collided = np.zeros(size, bool)
    agents = AgentState(slots, polygon, position, heading, np.zeros(size, np.float32))
    how = dict(forward_step=forward_step, turn_angle=np.radians(turn_deg), sliding=sliding)
    navmeshes.distance(slots, polygon, position, goal_index, first)
    for _ in range(500):
        actions = navmeshes.next_action(slots, polygon, position, heading, goal_index, goal_radius=radius, **how)
        active &= actions != 0
        if not active.any():
            break
        commands = DiscreteActions(forward_step, turn_deg).decode(actions)
        navmeshes.step(commands, agents, active, StepOutcome(moved, collided), sliding=sliding)
        path += moved
    navmeshes.distance(slots, polygon, position, goal_index, last)
    return first, np.where(active, np.inf, last), path


@pytest.mark.data
@pytest.mark.parametrize("scene", ["aws_bookstore", "aws_small_house", "godot_room"])
@pytest.mark.parametrize(("turn_deg", "sliding", "least"), [(30, True, 0.97), (30, False, 0.925), (10, True, 0.98)])
def test_spl_of_habitats_own_test(data_dir: Path, scene: str, turn_deg: float, sliding: bool, least: float) -> None:
    mesh = scene_mesh(data_dir, scene)
    points, polygons = mesh.random_points_and_polygons(600, np.random.default_rng(1))
    pair = mesh.polygon_island[polygons[:300]] == mesh.polygon_island[polygons[300:]]
    start = points[:300][pair]
    goal = points[300:][pair]
    apart = mesh.geodesic_distance(start, goal) > 1.0
    first, last, path = walk(mesh, start[apart], goal[apart], turn_deg=turn_deg, radius=0.25, sliding=sliding)
    success = last <= 0.25
    assert success.mean() >= (1.0 if sliding else 0.99)
    assert (success * first / np.maximum(first, path)).mean() >= least


@pytest.mark.parametrize("sliding", [True, False])
def test_rounds_the_end_of_a_thin_wall(sliding: bool) -> None:
    mesh = floor_plan(["0000", "0..0", "000."])
    start = np.array([[1.9, 0, 0.99]])
    goal = np.array([[1.5, 0, 2.01]])
    first, last, path = walk(mesh, start, goal, turn_deg=10, radius=0.2, sliding=sliding)
    assert last <= 0.2
    assert path <= first * 1.1


def test_does_not_walk_into_a_wall_for_ever() -> None:
    mesh = NavMesh.load(shipped_scenes()["apartment_5"].with_suffix(".navmesh"))
    # Where a step into the wall, which leads nowhere, would be the best of the eight: it passes by the next corner.
    start = np.array([[0.3849124, 0.1958926, 0.5878697]])
    heading = np.array([2.6981866], np.float32)
    goal = np.array([[0.2062076, 0.1958926, 1.116427]])
    _, last, _ = walk(mesh, start, goal, turn_deg=45, radius=0.2, sliding=False, forward_step=0.5, heading=heading)
    assert last <= 0.2


def test_stops_at_the_goal_and_where_there_is_no_path() -> None:
    mesh = floor_plan(["00.0"])
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(np.array([[0.5, 0, 0.5]])))
    position = np.array([[0.65, 0, 0.5], [0.75, 0, 0.5], [3.5, 0, 0.5]], np.float32)
    actions = navmeshes.next_action(
        np.zeros(3, np.int32),
        mesh.snap_with_polygon(position)[1],
        position,
        np.full(3, np.pi / 2, np.float32),  # looks along -x, at the goal
        np.zeros(3, np.int32),
        forward_step=0.25,
        turn_angle=0.2,
        goal_radius=0.2,
    )
    np.testing.assert_array_equal(actions, [0, 1, 0])


def test_turns_the_shorter_way() -> None:
    mesh = floor_plan(["00000"])
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(np.array([[0.5, 0, 0.5]])))
    headings = np.radians([90, 60, 120, -100, -80, 94, 84]).astype(np.float32)  # 90 looks at the goal
    size = len(headings)
    actions = navmeshes.next_action(
        np.zeros(size, np.int32),
        np.full(size, mesh.snap_with_polygon(np.array([[4.5, 0, 0.5]]))[1][0]),
        np.full((size, 3), [4.5, 0, 0.5], np.float32),
        headings,
        np.zeros(size, np.int32),
        forward_step=0.25,
        turn_angle=np.radians(10),
        goal_radius=0.2,
    )
    np.testing.assert_array_equal(actions, [1, 2, 3, 3, 2, 1, 2])
