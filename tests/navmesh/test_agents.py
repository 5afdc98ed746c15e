"""The batch: equal to its agents one by one, whatever the threads and the other slots, and near the exact distance."""

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from floors import SCENES, floor_plan, scene_mesh

from gym_batchnav.navmesh import NavMesh
from gym_batchnav.navmesh import agents as batch
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import AgentState, Commands, StepOutcome

ROOM = ["00000", "0...0", "00000", "0.0.0", "00000"]
TURN = np.pi / 18


def steps_and_turns(actions: np.ndarray) -> Commands:
    """The commands of 0 stop, 1 forward by 0.25 m, 2 left and 3 right by ``TURN``."""
    turn = np.array([0, 0, TURN, -TURN])[actions]
    forward = np.array([0, 0.25, 0, 0])[actions]
    return Commands(turn, forward, np.zeros(len(actions)), actions == 0)


@dataclass
class Agents:
    slots: np.ndarray
    polygon: np.ndarray
    position: np.ndarray
    heading: np.ndarray

    def copy(self, rows: slice = np.s_[:]) -> "Agents":
        return Agents(*(array[rows].copy() for array in vars(self).values()))

    def step(self, navmeshes: NavMeshAgents, actions, sliding=True, active=None) -> StepOutcome:
        size = len(self.slots)
        outcome = StepOutcome(np.full(size, 7, np.float32), np.ones(size, bool))
        agents = AgentState(*vars(self).values(), np.zeros(size, np.float32))
        active = np.ones(size, bool) if active is None else active
        navmeshes.step(steps_and_turns(actions), agents, active, outcome, sliding=sliding)
        return outcome

    def next_action(self, navmeshes: NavMeshAgents, goal_index: np.ndarray) -> np.ndarray:
        how = dict(forward_step=0.25, turn_angle=TURN, goal_radius=0.2)
        return navmeshes.next_action(*vars(self).values(), goal_index, **how)

    def distance(self, navmeshes: NavMeshAgents, goal_index: np.ndarray) -> np.ndarray:
        out = np.zeros(len(self.slots), np.float32)
        navmeshes.distance(self.slots, self.polygon, self.position, goal_index, out)
        return out


def place(meshes: list[NavMesh], size: int, seed: int = 0) -> Agents:
    """Agents at random points, the first half in the first slot and so on."""
    rng = np.random.default_rng(seed)
    slots = np.sort(np.arange(size) % len(meshes)).astype(np.int32)
    agents = Agents(slots, np.zeros(size, np.int32), np.zeros((size, 3), np.float32), np.zeros(size, np.float32))
    for slot, mesh in enumerate(meshes):
        here = slots == slot
        agents.position[here], agents.polygon[here] = mesh.random_points_and_polygons(int(here.sum()), rng)
    agents.heading[:] = rng.uniform(-np.pi, np.pi, size)
    return agents


def fill(meshes: list[NavMesh], num_goals: int = 5) -> NavMeshAgents:
    navmeshes = NavMeshAgents(len(meshes))
    for slot, mesh in enumerate(meshes):
        navmeshes.set_slot(slot, mesh.tables(mesh.random_points(num_goals, np.random.default_rng(9))))
    return navmeshes


@pytest.fixture(scope="module")
def meshes() -> list[NavMesh]:
    return [floor_plan(ROOM), floor_plan(["0123", "00.3", "0003"]), floor_plan(["0.0"], ["333"])]


def test_a_step_is_the_meshs_move(meshes: list[NavMesh]) -> None:
    agents = place(meshes, 300)
    navmeshes = fill(meshes)
    for sliding in (True, False):
        before = agents.copy()
        moved, collided = agents.step(navmeshes, np.ones(300, np.int64), sliding)
        h = before.heading.astype(np.float64)
        ends = before.position + 0.25 * np.stack([-np.sin(h), 0 * h, -np.cos(h)], axis=1)
        for slot, mesh in enumerate(meshes):
            here = agents.slots == slot
            got, hit = mesh.move(before.position[here], ends[here], sliding)
            np.testing.assert_allclose(agents.position[here], got, atol=1e-6)
            np.testing.assert_array_equal(collided[here], hit)
        length = np.linalg.norm(agents.position.astype(np.float64) - before.position, axis=1)
        np.testing.assert_allclose(moved, length, atol=1e-6)
        assert collided.any() and not collided.all()
        np.testing.assert_array_equal(agents.heading, before.heading)


def test_headings_stay_in_their_range(meshes: list[NavMesh]) -> None:
    agents = place(meshes, 64)
    navmeshes = fill(meshes)
    agents.heading[:4] = [np.float32(np.pi) - 1e-6, -np.float32(np.pi), 3.1415925, 0]
    start = agents.heading.astype(np.float64)
    for turn in range(1, 80):
        agents.step(navmeshes, np.full(64, 2 if turn < 40 else 3))
        assert ((agents.heading >= np.float32(-np.pi)) & (agents.heading < np.float32(np.pi))).all()
        wanted = start + TURN * (turn if turn < 40 else 78 - turn)
        np.testing.assert_allclose(np.cos(agents.heading - wanted), 1, atol=1e-6)


def test_inactive_agents_keep_their_pose(meshes: list[NavMesh]) -> None:
    agents = place(meshes, 30)
    navmeshes = fill(meshes)
    before = agents.copy()
    active = np.arange(30) % 2 == 0
    moved, collided = agents.step(navmeshes, np.arange(30) % 4, active=active)
    for name, array in vars(agents).items():
        np.testing.assert_array_equal(array[~active], getattr(before, name)[~active])
    assert not moved[~active].any() and not collided[~active].any()
    assert (agents.heading != before.heading).any()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_batch_size_change_nothing(
    meshes: list[NavMesh], monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    size = 700
    navmeshes = fill(meshes)
    goal_index = (np.arange(size) % 5).astype(np.int32)
    rng = np.random.default_rng(3)
    whole = place(meshes, size)
    single = place(meshes, size)
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        for _ in range(10):
            actions = rng.integers(0, 4, size)
            monkeypatch.setattr(batch, "PARALLEL_FROM", 1)
            results = [*whole.step(navmeshes, actions)]
            results += [whole.distance(navmeshes, goal_index), whole.next_action(navmeshes, goal_index)]
            monkeypatch.setattr(batch, "PARALLEL_FROM", size + 1)
            parts = []
            for part in (slice(0, 1), slice(1, 400), slice(400, size)):
                some = single.copy(part)
                outs = [*some.step(navmeshes, actions[part])]
                outs += [some.distance(navmeshes, goal_index[part]), some.next_action(navmeshes, goal_index[part])]
                parts.append(outs)
                for name, array in vars(some).items():
                    getattr(single, name)[part] = array
            for got, wanted in zip(results, zip(*parts, strict=True), strict=True):
                np.testing.assert_array_equal(got, np.concatenate(wanted))
            for name, array in vars(whole).items():
                np.testing.assert_array_equal(array, getattr(single, name))
    finally:
        numba.set_num_threads(before)


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_looked_up_distances_are_exact_to_the_millimetre(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    goals = mesh.random_points(40, np.random.default_rng(1))
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(goals))
    agents = place([mesh], 4000, seed=2)
    goal_index = (np.arange(4000) % 40).astype(np.int32)
    got = agents.distance(navmeshes, goal_index)
    exact = mesh.geodesic_distance(agents.position, goals[goal_index])
    np.testing.assert_array_equal(np.isinf(got), np.isinf(exact))
    reached = np.isfinite(exact)
    error = np.abs(got[reached] - exact[reached])
    assert error.mean() <= 1e-3
    assert (error <= np.maximum(0.005 * exact[reached], 0.05)).all()


def test_a_swap_of_one_slot_leaves_the_others(meshes: list[NavMesh]) -> None:
    navmeshes = fill(meshes)
    agents = place(meshes, 90)
    goal_index = np.zeros(90, np.int32)
    before = agents.distance(navmeshes, goal_index)
    other = floor_plan(["0000000"])
    navmeshes.set_slot(1, other.tables(np.array([[6.5, 0, 0.5]])))
    here = agents.slots == 1
    agents.position[here] = [0.5, 0, 0.5]
    agents.polygon[here] = 0
    after = agents.distance(navmeshes, goal_index)
    np.testing.assert_array_equal(after[~here], before[~here])
    np.testing.assert_allclose(after[here], 6, atol=1e-6)
    navmeshes.set_slot(1, other.tables(np.array([[3.5, 0, 0.5]])))
    np.testing.assert_allclose(agents.distance(navmeshes, goal_index)[here], 3, atol=1e-6)


def test_agents_without_ground_stand_still(meshes: list[NavMesh]) -> None:
    navmeshes = fill(meshes)
    agents = place(meshes, 9)
    navmeshes.clear_slot(1)
    agents.polygon[0] = -1
    agents.slots[8] = 77
    agents.polygon[7] = 10_000
    lost = (agents.slots == 1) | np.isin(np.arange(9), [0, 7, 8])
    before = agents.copy()
    moved, collided = agents.step(navmeshes, np.ones(9, int))
    np.testing.assert_array_equal(agents.position[lost], before.position[lost])
    assert not moved[lost].any() and not collided[lost].any() and moved[~lost].any()
    assert np.isinf(agents.distance(navmeshes, np.zeros(9, np.int32)))[lost].all()
    assert np.isinf(agents.distance(navmeshes, np.full(9, 5, np.int32))).all()  # no such goal
    assert (agents.next_action(navmeshes, np.zeros(9, np.int32))[lost] == 0).all()


def test_wrong_arrays_and_goals_are_refused(meshes: list[NavMesh]) -> None:
    navmeshes = fill(meshes)
    agents = place(meshes, 6)
    wide = Agents(agents.slots, agents.polygon, agents.position.astype(np.float64), agents.heading)
    with pytest.raises(TypeError, match="position is float64"):
        wide.step(navmeshes, np.ones(6, int))
    with pytest.raises(TypeError, match="turn"):
        agents.step(navmeshes, np.ones(5, int))
    with pytest.raises(TypeError, match="goal_index"):
        agents.distance(navmeshes, np.zeros(6, np.int64))
    with pytest.raises(ValueError, match="goal 1 at"):
        meshes[0].tables(np.array([[0.5, 0, 0.5], [90, 0, 0]]))
    with pytest.raises(ValueError, match="num_slots=0"):
        NavMeshAgents(0)
    for first in ([0, 1], [1, 2], [0, 2, 1, 2], [], [[0, 2]]):
        with pytest.raises(ValueError, match="rising from 0 to 2"):
            meshes[0].tables(np.array([[0.5, 0, 0.5], [2.5, 0, 2.5]]), first_goal=np.array(first, np.int32))


@pytest.mark.data
@pytest.mark.parametrize("sliding", [True, False])
def test_nobody_leaves_the_navmesh(data_dir: Path, sliding: bool) -> None:
    all_meshes = [scene_mesh(data_dir, scene) for scene in SCENES]
    navmeshes = fill(all_meshes)
    agents = place(all_meshes, 2000)
    island = np.array([all_meshes[s].polygon_island[p] for s, p in zip(agents.slots, agents.polygon, strict=True)])
    rng = np.random.default_rng(4)
    start = agents.copy()
    for _ in range(200):
        agents.heading[:] += rng.normal(0, 0.3, 2000).astype(np.float32)
        agents.step(navmeshes, np.ones(2000, int), sliding)
    now = np.array([all_meshes[s].polygon_island[p] for s, p in zip(agents.slots, agents.polygon, strict=True)])
    np.testing.assert_array_equal(now, island)
    assert (np.linalg.norm(agents.position - start.position, axis=1) > 0.5).mean() > 0.8
    for slot, mesh in enumerate(all_meshes):
        here = agents.slots == slot
        np.testing.assert_allclose(mesh.snap(agents.position[here]), agents.position[here], atol=2e-5)
        for p, (x, _, z) in zip(agents.polygon[here], agents.position[here].astype(np.float64), strict=True):
            a = mesh.vertices[mesh.polygons[p][mesh.polygons[p] >= 0]].astype(np.float64)[:, [0, 2]]
            b = np.roll(a, -1, axis=0) - a
            beside = (b[:, 0] * (z - a[:, 1]) - b[:, 1] * (x - a[:, 0])) / np.linalg.norm(b, axis=1)
            assert beside.max() <= 2e-5


# Numba's workqueue layer, the only one on some machines, aborts a process that is in two parallel kernels at once.
TWO_THREADS = """
import threading
import numba, numpy as np
from floors import floor_plan
from test_agents import ROOM, fill, place

def run(seed):
    navmeshes, agents = fill([floor_plan(ROOM)]), place([floor_plan(ROOM)], 4096, seed)
    goals, rng = np.zeros(4096, np.int32), np.random.default_rng(seed)
    both.wait()
    for _ in range(10):
        agents.step(navmeshes, rng.integers(1, 4, 4096))
        agents.distance(navmeshes, goals)
        agents.next_action(navmeshes, goals)
    ended.append(seed)

both, ended = threading.Barrier(2), []
threads = [threading.Thread(target=run, args=(seed,)) for seed in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(numba.threading_layer(), sorted(ended))
"""


def test_agents_of_two_threads_move_at_once():
    found = os.pathsep.join(filter(None, map(str, (Path(__file__).parent, Path(__file__).parents[1], *sys.path))))
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2", "PYTHONPATH": found}
    done = subprocess.run(
        [sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.stdout.split("\n")[0] == "workqueue [0, 1]", done.stderr


@pytest.mark.data
@pytest.mark.parametrize("scene", SCENES)
def test_the_distance_to_a_set_is_that_to_its_nearest_goal(data_dir: Path, scene: str) -> None:
    mesh = scene_mesh(data_dir, scene)
    rng = np.random.default_rng(4)
    goals = mesh.random_points(60, rng)
    first = np.array([0, 1, 4, 4, 30, 60], np.int32)  # one goal, three, none, many
    agents = place([mesh], 1000, seed=5)
    single = NavMeshAgents(1)
    single.set_slot(0, mesh.tables(goals))
    sets = NavMeshAgents(1)
    sets.set_slot(0, mesh.tables(goals, first_goal=first))
    each = np.stack([agents.distance(single, np.full(1000, goal, np.int32)) for goal in range(60)])
    for number, (begin, end) in enumerate(pairwise(first)):
        got = agents.distance(sets, np.full(1000, number, np.int32))
        wanted = each[begin:end].min(axis=0, initial=np.inf)
        if end - begin == 1:
            np.testing.assert_array_equal(got, wanted)
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


def test_followers_walk_to_the_nearest_goal_of_a_set() -> None:
    mesh = floor_plan(["0000000", "0.....0", "0000000"])
    goals = np.array([[0.5, 0, 0.5], [6.5, 0, 2.5], [6.5, 0, 0.5]], np.float32)
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, mesh.tables(goals, first_goal=np.array([0, 3])))
    agents = place([mesh], 60, seed=1)
    nothing = np.zeros(60, np.int32)
    start = agents.distance(navmeshes, nothing)
    walked = np.zeros(60)
    for _ in range(120):
        walked += agents.step(navmeshes, agents.next_action(navmeshes, nothing))[0]
    assert (agents.distance(navmeshes, nothing) <= 0.2).all()
    assert (walked <= start + 0.25).all()
