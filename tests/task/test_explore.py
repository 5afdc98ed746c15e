"""Explore and Flee, on paths with known cells and distances."""

import numpy as np
import pytest
from rooms import box, box_room, scene_of

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.state import agent_state, episode_state
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.explore import AreaSeen, CellsVisited, Coverage, DistanceFromStart, Explore, Flee, walkable_cells

STOP, FORWARD, LEFT, RIGHT = range(4)


@pytest.fixture(scope="module")
def library():
    """Return a hall of 12 m by 12 m around the origin, with a wall along x = 0 that ends at z = 2, and another room."""
    hall = box((-6, 0, -6), (6, 2.6, 6), inward=True)
    return SceneLibrary.from_scenes([scene_of("hall", hall, box((-0.1, 0, -6), (0.1, 2.6, 2))), box_room()])


@pytest.fixture
def make(library, opened):
    def make(task, num_envs=1, **kwargs):
        keywords = {"library": library, "episodes": 20, "sensors": (), "task": task}
        return opened(BatchNavEnv(num_envs, **{**keywords, **kwargs}))

    return make


def begin_at(env, x, z, heading=0.0):
    """Begin an episode at a given pose, with new buffers."""
    env.reset(seed=0)
    place = env.simulator.navmesh(0).snap(np.array([[x, 0, z]], np.float32))
    env.set_pose(place, np.array([heading]))
    env.simulator.episodes.start[:] = place
    env.simulator.episodes.start_heading[:] = heading
    env.components.begin(env.task_state, np.arange(1))


def walk(env, actions):
    """Take steps and return their infos and rewards."""
    steps = [env.step(np.full(env.num_envs, action)) for action in actions]
    return [step[4] for step in steps], np.array([step[1][0] for step in steps])


class TestExplore:
    def test_a_straight_walk_finds_a_cell_a_metre_or_those_of_another_size(self, make):
        assert 500 * 0.25 < CellsVisited().buffers(1)["visited"].shape[1]  # no walk of the default length comes round
        env = make(Explore())
        begin_at(env, 3.5, 5.1)
        infos, reward = walk(env, [FORWARD] * 20)  # to z = 0.1
        np.testing.assert_allclose(reward.nonzero()[0], [0, 4, 8, 12, 16])
        np.testing.assert_array_equal(reward[reward > 0], 0.25)
        assert [int(info["cells_visited"][0]) for info in infos] == [2] * 4 + [3] * 4 + [4] * 4 + [5] * 4 + [6] * 4
        env = make(Explore(cell_size=3.0, cell_reward=2.0))
        begin_at(env, 3.5, 5.1)
        infos, reward = walk(env, [FORWARD] * 20)
        assert infos[-1]["cells_visited"] == 2 and reward.sum() == 2.0

    def test_counts_are_those_of_a_set(self, make):
        env = make(Explore(), num_envs=5, max_episode_steps=60, autoreset_mode="same_step")
        env.reset(seed=3)
        seen = [{tuple(np.floor(place[[0, 2]]))} for place in env.agents.position]
        rng = np.random.default_rng(0)
        for step in range(150):
            actions = rng.choice(4, 5, p=[0.05, 0.75, 0.1, 0.1])
            _, reward, terminated, truncated, info = env.step(actions)
            assert not terminated.any() and (truncated == (step % 60 == 59)).all()
            for index, place in enumerate(env.agents.position):
                if truncated[index]:
                    seen[index] = {tuple(np.floor(place[[0, 2]]))}
                    assert info["cells_visited"][index] == 1 and not env.task_state.buffers["cells_found"][index]
                    continue
                before = len(seen[index])
                seen[index].add(tuple(np.floor(place[[0, 2]])))
                assert info["cells_visited"][index] == len(seen[index])
                assert reward[index] == 0.25 * (len(seen[index]) - before)


class TestFlee:
    def test_reward_is_the_growth_of_the_distance(self, make):
        env = make(Flee())
        begin_at(env, 3.5, 4.0)
        infos, reward = walk(env, [FORWARD] * 8 + [LEFT] * 18 + [FORWARD] * 4)
        np.testing.assert_allclose(reward, [0.25] * 8 + [0.0] * 18 + [-0.25] * 4, atol=1e-3)
        assert infos[-1]["distance_from_start"][0] == pytest.approx(1.0, abs=1e-3)

    def test_each_agent_is_measured_in_its_own_scene(self, make):
        env = make(Flee(), num_envs=4)
        env.reset(seed=0)
        infos, _ = walk(env, [FORWARD] * 3)
        assert sorted(env.agents.slot) == [0, 0, 1, 1]
        for index, slot in enumerate(env.agents.slot):
            ends = env.episodes.start[[index]], env.agents.position[[index]]
            navmesh = env.simulator.navmesh(slot)
            assert infos[-1]["distance_from_start"][index] == navmesh.geodesic_distance(*ends)[0] > 0

    @pytest.mark.parametrize("geodesic", [True, False])
    def test_round_the_wall_the_two_distances_differ(self, make, geodesic):
        env = make(Flee(geodesic=geodesic))
        begin_at(env, 1.0, -1.0)
        far = env.simulator.navmesh(0).snap(np.array([[-1.0, 0, -1.0]], np.float32))
        env.set_pose(far, np.zeros(1))
        infos, reward = walk(env, [LEFT])
        np.testing.assert_array_equal(reward, 0)
        corner = np.hypot(1.0 - 0.2, 3.1)  # the wall's end is at x = 0.1, z = 2, and the agent's radius 0.1 m
        expected = 2 * corner + 0.4 if geodesic else 2.0
        assert infos[-1]["distance_from_start"][0] == pytest.approx(expected, abs=0.05 if geodesic else 1e-3)

    def test_a_step_to_where_no_way_leads_pays_nothing(self):
        class Cut:
            def geodesic_distance(self, starts, goals, method):
                return np.full(len(starts), np.inf)

        measure = DistanceFromStart()
        state = TaskState(agent_state(2), episode_state(2), measure.buffers(2), lambda slot: Cut(), 500, 0.2)
        measure.update(state, np.ones(2, int), np.ones(2, bool))
        np.testing.assert_array_equal(Flee().reward(state, {}), 0)
        assert np.isinf(measure.measure(state)).all()


class TestCoverage:
    @pytest.mark.parametrize("size", [0.5, 1.0, 2.3])
    def test_walkable_cells_are_those_with_walkable_points(self, make, size):
        navmesh = make(Explore()).simulator.navmesh(0)
        points = navmesh.random_points(200_000, np.random.default_rng(0))
        cells = {tuple(cell) for cell in np.floor(points[:, [0, 2]] / size).astype(int).tolist()}
        total = walkable_cells(navmesh, size)
        assert total.shape == (navmesh.num_islands,)
        assert len(cells) <= total.sum() <= len(cells) + 6  # random points miss slivers

    def test_every_cell_of_a_hall(self, make):
        env = make(Explore(), measures=(Coverage(3.0),))
        begin_at(env, 1.0, 5.0)
        # The hall from -5.9 to 5.9 has 4 x 4 cells of 3 m; the wall along x = 0 lies between two columns.
        infos, _ = walk(env, [FORWARD] * 20)
        assert infos[-1]["coverage"][0] == 2 / 16
        infos, _ = walk(env, [FORWARD] * 20)
        assert infos[-1]["coverage"][0] == 4 / 16


class TestAreaSeen:
    def test_a_look_from_the_middle_of_a_room_is_a_sector(self, make):
        env = make(Explore(), measures=(AreaSeen(cell_size=0.1, reach=2.0),))
        begin_at(env, 3.0, 3.0)
        infos, _ = walk(env, [STOP])
        assert infos[-1]["area_seen"][0] == pytest.approx(np.pi, rel=0.12)  # a quarter of a disc of 2 m
        infos, _ = walk(env, [LEFT] * 36)
        assert infos[-1]["area_seen"][0] == pytest.approx(4 * np.pi, rel=0.08)

    def test_walls_end_the_view(self, make):
        env = make(Explore(), measures=(AreaSeen(cell_size=0.1, reach=5.0, fan_deg=360.0),))
        begin_at(env, 3.0, -3.0)
        infos, _ = walk(env, [STOP])
        visited = env.task_state.buffers["seen"][0]
        x = np.nonzero(visited.any(axis=1))[0]
        x = np.where(x < 64, x, x - 128) * 0.1
        assert x.min() >= 0.1 and x.max() <= 5.9  # behind the wall along x = 0 nothing is seen from here
        # The floor from x = 0.2 to 5.9 and from z = -5.9 within 5 m.
        assert 20 < infos[-1]["area_seen"][0] < 5.7 * 8.0
