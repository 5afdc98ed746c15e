"""Agents and people that share scenes, through the environment."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gym_batchnav.actions.continuous import VelocityActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import Equirectangular
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import arrays_of
from gym_batchnav.worlds.api import Team
from gym_batchnav.worlds.people import People
from gym_batchnav.worlds.worlds import place_bodies

APARTMENTS = ["apartment_0", "apartment_1"]


@pytest.fixture
def make(opened):
    def make(num_envs, **keywords):
        given = {"agents_per_world": 4, "bodies": (People(2),), "sensors": (), "renderer": "embree"}
        return opened(BatchNavEnv(num_envs, **{"scenes": APARTMENTS, **given, **keywords}))

    return make


def run(env, num_steps, seed=0):
    """Poses and rewards of followers that often go astray."""
    env.reset(seed=seed)
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(num_steps):
        actions = env.shortest_path_actions()
        astray = rng.random(4096)[: env.num_envs] < 0.3
        actions[astray] = rng.integers(1, 4, 4096)[: env.num_envs][astray]
        _, reward, terminated, truncated, _ = env.step(actions)
        state = env.worlds.state
        rows.append([state.position.copy(), state.heading.copy(), reward, terminated, truncated])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def test_bodies_begin_apart_in_one_scene_and_never_overlap(make):
    env = make(32)
    env.reset(seed=3)
    assert (env.agents.slot.reshape(8, 4) == env.agents.slot[::4, None]).all()
    view = env.task_state.worlds
    least = view.gaps().min()
    assert least > 0.05
    for _ in range(150):
        env.step(env.shortest_path_actions())
        least = min(least, view.gaps().min())
    assert least > -1e-3
    assert view.state.num_touches.sum() > 10


def test_the_episodes_of_a_world_end_together(make):
    env = make(8, max_episode_steps=100, autoreset_mode="same_step")
    env.reset(seed=0)
    was_waiting = np.zeros(8, bool)
    ends = 0
    for _ in range(450):
        before = env.agents.position.copy()
        _, reward, terminated, truncated, info = env.step(env.shortest_path_actions())
        done = terminated | truncated
        assert not (terminated & truncated).any()
        assert (done.reshape(2, 4) == done.reshape(2, 4)[:, :1]).all()
        assert (reward[was_waiting] == 0).all()
        np.testing.assert_array_equal(env.agents.position[was_waiting & ~done], before[was_waiting & ~done])
        if done.any():
            ends += 1
            np.testing.assert_array_equal(info["final_info"]["success"][done] > 0, terminated[done])
        was_waiting = info["waiting"]
    assert ends > 2


def test_agents_that_wait_are_neither_seen_nor_in_the_way(make):
    env = make(4, bodies=(), max_episode_steps=50)
    env.reset(seed=0)
    env.step(np.array([0, 1, 1, 1]))  # STOP ends the first agent's own episode
    assert env.worlds.state.present.tolist() == [[False, True, True, True]]
    assert np.isinf(env.task_state.worlds.gaps()[0]).all()
    for _ in range(49):
        _, _, terminated, truncated, _ = env.step(np.full(4, 2))
    assert terminated.tolist() == [True, False, False, False]
    assert truncated.tolist() == [False, True, True, True]
    env.step(np.full(4, 2))
    assert env.worlds.state.present.all() and not env.worlds.state.waiting.any()


def test_an_agent_is_rewarded_for_a_success_before_its_world_ends(make):
    env = make(4, bodies=(), max_episode_steps=30)
    env.reset(seed=0)
    goals = env.navmesh_of(0).snap(env.episodes.goal)
    env.set_pose(goals, np.zeros(4), np.array([True, False, False, False]))
    _, reward, *_ = env.step(np.array([0, 2, 2, 2]))
    assert reward[0] == pytest.approx(2.5 - 0.01) and abs(reward[1:]).max() < 0.1
    total = reward.copy()
    while not env.episodes.done.any():
        _, reward, terminated, _, info = env.step(np.full(4, 2))
        total += reward
    assert terminated.tolist() == [True, False, False, False] == info["success"].tolist()
    assert total[0] == pytest.approx(2.5 - 0.01)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_world_is_the_same_whatever_the_number_of_worlds(make, mode):
    keywords = {"max_episode_steps": 40, "autoreset_mode": mode, "scenes": "apartment_0"}
    few, many = (make(count, **keywords) for count in (8, 264))
    for one, other in zip(run(few, 60), run(many, 60), strict=True):
        np.testing.assert_array_equal(one, other[:, : one.shape[1]])


def test_people_who_are_blocked_try_steps_of_one_length_whatever_other_worlds_do(make, monkeypatch):
    lengths = []
    original = NavMeshAgents.next_walk
    monkeypatch.setattr(
        NavMeshAgents, "next_walk", lambda *args, longest: lengths.append(longest) or original(*args, longest=longest)
    )
    for count in (4, 84):
        env = make(count, actions=VelocityActions(time_step=0.05), scenes="apartment_0")
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros(env.action_space.shape, np.float32))
    assert len(lengths) == 6 and len(set(lengths)) == 1


def test_worlds_without_an_episode_stand_still_and_one_agent_alone_has_none(make):
    env = make(8, scenes="apartment_0", episodes=Episodes(order="once"), max_episode_steps=2)  # of 100
    env.reset(seed=0)
    for _ in range(160):
        _, reward, terminated, truncated, info = env.step(np.full(8, 2))
    assert not info["episode_valid"].any() and not (terminated | truncated).any() and (reward == 0).all()
    env = make(2, agents_per_world=1, bodies=())
    _, info = env.reset(seed=0)
    assert env.worlds is None and env.task_state.worlds is None and "waiting" not in info


def test_a_paused_world_keeps_its_state(make):
    env = make(8)
    run(env, 40)
    state = env.worlds.state
    assert state.touched[1].any() or (state.previous[1] != state.position[1]).any()
    before = {name: array[1].copy() for name, array in arrays_of(state).items()}
    moving = state.position[0].copy()
    with env.paused(np.arange(8) >= 4):
        for _ in range(5):
            env.step(np.full(8, 1))
    for name, array in arrays_of(state).items():
        np.testing.assert_array_equal(array[1], before[name], err_msg=name)
    assert (state.position[0] != moving).any()


def test_the_number_of_agents_is_drawn_for_each_episode(make):
    env = make(400, agents_per_world=Team((np.int8(1), np.int8(4))), bodies=(), scenes="apartment_0")
    env.reset(seed=0)
    there = env.worlds.state.present.sum(axis=1)
    assert np.bincount(there, minlength=5)[1:].min() > 10
    absent = ~env.worlds.state.present.ravel()
    before = env.agents.position[absent].copy()
    _, reward, _, _, info = env.step(np.ones(400, int))
    assert (reward[absent] == 0).all() and info["waiting"][absent].all()
    np.testing.assert_array_equal(env.agents.position[absent], before)


@pytest.mark.parametrize("renderer", ["embree", pytest.param("opengl", marks=pytest.mark.opengl)])
def test_agents_see_each_other_but_not_themselves(make, renderer):
    ids = {"robot": 7, "person": 9}
    drawn = {"sensors": ("semantic", "depth"), "camera": Camera(32, 32), "renderer": renderer, "semantic_ids": ids}
    env = make(8, scenes="apartment_0", **drawn)
    observation, _ = env.reset(seed=0)
    seen = {number: 0 for number in ids.values()}
    least = 10.0
    for _ in range(40):
        for number in seen:
            seen[number] += int((observation["semantic"] == number).sum())
        shown = observation["semantic"] > 0
        least = min(least, observation["depth"][shown].min() * 10 if shown.any() else 10)
        observation, *_ = env.step(env.shortest_path_actions())
    assert all(count > 40 for count in seen.values())
    assert least > 0.05


def test_people_walk_at_their_speeds_to_goal_after_goal(make):
    env = make(1, agents_per_world=1, bodies=(People(1, speed=(1.0, 1.0)),), scenes="apartment_0")
    env.reset(seed=5)
    state = env.worlds.state
    lengths = []
    for _ in range(400):
        env.step(np.array([2]))
        if not state.touched[0, 1]:
            lengths.append(float(np.linalg.norm(state.position[0, 1] - state.previous[0, 1])))
    assert max(lengths) == pytest.approx(0.25, abs=1e-4)
    assert np.mean(np.isclose(lengths, 0.25, atol=1e-3)) > 0.7
    assert state.num_goals[0, 1] >= 2


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"num_envs": 6}, "pass a multiple of 4"),
        ({"agents_per_world": 0}, "agents_per_world=0: pass a number"),
        ({"agents_per_world": (3, 1)}, "agents_per_world"),
        ({"agents_per_world": Team, "num_envs": 1}, "agents_per_world"),
        ({"bodies": People()}, r"bodies=People.*pass a tuple"),
        ({"bodies": (3,)}, "bodies= has a int without num"),
        ({"bodies": (People(62),)}, "66 bodies per world: use at most 64"),
        ({"actions": "flight"}, "flying agents cannot share a world"),
    ],
)
def test_wrong_worlds_are_refused(make, keywords, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**{"num_envs": 4, **keywords})


def test_wrong_teams_and_speeds_are_refused_by_the_keyword():
    for num_agents in (0, (0, 2), (2, 1), (1, 2, 3), (), 1.5):
        with pytest.raises(ValueError, match=r"^num_agents="):
            Team(num_agents)
    for speed in (1.0, (1.0,), (0.0, 1.0), (2.0, 1.0), ("1", "2")):
        with pytest.raises(ValueError, match="pass the least and the greatest speed as a tuple, above 0"):
            People(speed=speed)


def test_every_camera_shows_other_agents_but_not_its_own(make):
    cameras = {"lidar": Camera.lidar(720, eye_height=0.2), "around": Camera(128, 64, lens=Equirectangular())}
    sensors = ("lidar/depth", "lidar/semantic", "around/semantic")
    env = make(4, bodies=(), scenes="apartment_0", camera=cameras, sensors=sensors)
    env.reset(seed=0)
    place = env.agents.position[0]
    ways = [[0.8, 0, 0], [-0.8, 0, 0], [0, 0, 0.8], [0, 0, -0.8]]
    near = next(at for at in env.navmesh_of(0).snap(place + np.float32(ways)) if np.linalg.norm(at - place) > 0.7)
    seen = env.set_pose(np.stack([place, near, place, place]), np.zeros(4), np.array([True, True, False, False]))
    shown = seen["lidar/semantic"][0, 0, :, 0] == 1_000_001
    distance = np.linalg.norm(near - place)
    np.testing.assert_allclose(seen["lidar/depth"][0, 0, shown, 0].min(), distance - 0.17, atol=0.012)  # its base
    for key in ("lidar/semantic", "around/semantic"):
        where = np.nonzero((seen[key][0] == 1_000_001).any(axis=(0, 2)))[0] + 0.5
        angle = np.angle(np.exp(2j * np.pi * where / seen[key].shape[2]).mean()) - np.pi  # to the right of -z
        assert np.cos(angle - np.arctan2(*(near - place)[[0, 2]] * [1, -1])) > 0.99
        assert not (seen[key][0] == 1_000_000).any()


def test_others_know_where_an_agent_was_put(make):
    env = make(4, bodies=(), scenes="apartment_0")
    env.reset(seed=0)
    places = env.agents.position[[0, 0, 2, 3]]
    env.set_pose(places, np.zeros(4), np.array([False, True, False, False]))
    assert env.task_state.worlds.gaps()[0, 1] == pytest.approx(-2 * 0.18)


def test_a_reset_takes_whole_worlds(make):
    env = make(8)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="choose all or none of the rows 0 to 3"):
        env.reset(options={"reset_mask": np.arange(8) < 3})
    with pytest.raises(ValueError, match="choose all or none of the rows 4 to 7"):
        env.reset(options={"reset_mask": np.arange(8) < 5})
    with pytest.raises(ValueError, match="the 4 agents of a world begin and pause together"):
        env.paused(np.arange(8) % 2 == 0).__enter__()
    before = env.agents.position[4:].copy()
    env.reset(options={"reset_mask": np.arange(8) < 4})
    np.testing.assert_array_equal(env.agents.position[4:], before)


def test_where_an_island_has_no_room_others_begin_elsewhere():
    polygon = np.array([0, 1, 1, 1], np.int32)
    position = np.array([[0, 0, 0], [5, 0, 0], [5.1, 0, 0], [7, 0, 0]], np.float32)
    navmesh = SimpleNamespace(polygon_island=np.array([0, 1]))
    places = SimpleNamespace(start_polygon=polygon, navmesh=navmesh, episode_set=SimpleNamespace(start=position))
    draws = np.random.default_rng(0).random((50, 3, 16))
    rows = place_bodies(places, np.zeros(50, int), np.full(3, 0.2), draws)
    assert (rows[:, 0] == 0).all() and set(map(tuple, np.sort(rows[:, 1:], axis=1).tolist())) == {(1, 3), (2, 3)}
    with pytest.raises(ValueError, match="no room for 5 bodies in a world: only 3"):
        place_bodies(places, np.zeros(1, int), np.full(5, 0.2), np.random.default_rng(0).random((1, 5, 16)))
