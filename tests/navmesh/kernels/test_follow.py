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


def walk(mesh: NavMesh, start, goals, *, turn_deg, radius, sliding, forward_step=0.25, heading=None):
    """Follow to goals; return the distances at the start, those where followers stopped (inf: never), and the paths."""
    size = len(start)
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(goals))
    position, polygon = mesh.snap_with_polygon(start)
    slots = np.zeros(size, np.int32)
    if heading is None:
        heading = np.random.default_rng(0).uniform(-np.pi, np.pi, size).astype(np.float32)
    agents = AgentState(slots, polygon, position, heading, np.zeros(size, np.float32))
    path = np.zeros(size)
    active = np.ones(size, bool)
    outcome = StepOutcome(np.zeros(size, np.float32), np.zeros(size, bool))
    how = dict(forward_step=forward_step, turn_angle=np.radians(turn_deg), sliding=sliding, goal_radius=radius)
    for _ in range(500):
        actions = navmeshes.next_action(slots, polygon, position, heading, np.arange(size, dtype=np.int32), **how)
        active &= actions != 0
        if not active.any():
            break
        commands = DiscreteActions(forward_step, turn_deg).decode(actions)
        navmeshes.step(commands, agents, active, outcome, sliding=sliding)
        path += outcome.moved
    last = np.where(active, np.inf, mesh.geodesic_distance(position, goals))
    return mesh.geodesic_distance(start, goals), last, path


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


@pytest.mark.parametrize(
    ("plan", "x", "headings_deg", "turn_deg", "expected"),
    [
        ("00.0", [0.65, 0.75, 3.5], [90, 90, 90], 11.5, [0, 1, 0]),  # within the radius, outside of it, without a path
        ("00000", [4.5] * 7, [90, 60, 120, -100, -80, 94, 84], 10, [1, 2, 3, 3, 2, 1, 2]),  # 90 looks at the goal
    ],
    ids=["stops", "turns the shorter way"],
)
def test_the_action_at_a_place(plan, x, headings_deg, turn_deg, expected) -> None:
    mesh = floor_plan([plan])
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(np.array([[0.5, 0, 0.5]])))
    position = np.array([[each, 0, 0.5] for each in x], np.float32)
    zeros = np.zeros(len(x), np.int32)
    polygon = mesh.snap_with_polygon(position)[1]
    how = dict(forward_step=0.25, turn_angle=np.radians(turn_deg), goal_radius=0.2)
    headings = np.radians(headings_deg).astype(np.float32)
    assert navmeshes.next_action(zeros, polygon, position, headings, zeros, **how).tolist() == expected
