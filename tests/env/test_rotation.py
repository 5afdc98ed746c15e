"""Rotation of scenes in a running environment."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rooms import box_room
from walks import assert_equal, walk

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.scene.save import save_glb

COUNT = 12
ROOMS = [box_room(f"room_{i}", width=8 + i, depth=6 + i / 2) for i in range(COUNT)]
ROTATING = Scenes(ROOMS, resident=3, rotate_every=10, deterministic_rotation=True)
ONCE = Episodes(order="once", count=40)


@pytest.fixture
def make(opened):
    def make(num_envs=6, **kwargs):
        keywords = {"scenes": ROTATING, "episodes": 40, "max_episode_steps": 40, "camera": Camera(12, 8), **kwargs}
        return opened(BatchNavEnv(num_envs, **{"renderer": "embree", **keywords}))

    return make


def test_agents_move_over_and_stay_on_the_ground(make):
    env = make()
    env.reset(seed=3)
    visited = set()
    last = None
    for step in range(400):
        *_, info = env.step(env.shortest_path_actions())
        scenes = env.library.source_index[env.agents.slot]
        assert (scenes >= 0).all()
        np.testing.assert_array_equal(info["scene_index"], scenes)
        assert [env.scene_name(i) for i in range(6)] == [f"room_{scene}" for scene in scenes]
        if last is not None:  # nobody changes scene in the middle of an episode
            began = env.episodes.num_steps == 0
            assert ((scenes == last) | began).all()
        if step % 50 == 0:
            for i in range(6):
                assert env.simulator.navmesh(int(env.agents.slot[i])).is_navigable(env.agents.position[i : i + 1]).all()
        visited |= set(scenes.tolist())
        last = scenes
    assert len(visited) == COUNT and env.library.stats()["swaps"] >= COUNT - 3  # three were there from the start


def test_a_deterministic_run_repeats_itself(make):
    first = make(autoreset_mode="same_step", sensors=("depth", "semantic"))
    second = make(autoreset_mode="same_step", sensors=("depth", "semantic"), buffers=2)
    assert_equal(first.reset(seed=9)[0], second.reset(seed=9)[0])
    second.reset(seed=11)
    walk(second, 60)
    second.reset(seed=9)  # the plan begins anew, whatever went before
    for left, right in zip(walk(first, 120), walk(second, 120), strict=True):
        for a, b in zip(left[1:4], right[1:4], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(left[4]["scene_index"], right[4]["scene_index"])
    assert_equal(first.set_pose(first.agents.position, first.agents.heading),
                 second.set_pose(second.agents.position, second.agents.heading))  # fmt: skip
    assert first.library.stats()["swaps"] > 3


@pytest.mark.parametrize("rotate_every", [1, 4])
def test_a_run_goes_on_from_any_of_its_states(make, rotate_every):
    """Also from one with a scene on its way, which arrives neither later nor is another one."""
    scenes = Scenes(ROOMS[:4], resident=2, rotate_every=rotate_every, deterministic_rotation=True)
    env, other = (make(scenes=scenes, sensors=(), max_episode_steps=12) for _ in range(2))
    env.reset(seed=1), other.reset(seed=2)
    states = []
    for _ in range(40):
        states.append(env.get_state())
        walk(env, 1)
    states.append(env.get_state())
    for before, after in pairwise(states):
        other.set_state(before)
        walk(other, 1)
        assert other.get_state()["library"] == after["library"]


def test_an_episode_is_that_of_its_scene_alone(make):
    env = make()
    env.reset(seed=4)
    walk(env, 200)
    for i in range(6):
        scene = int(env.library.source_index[env.agents.slot[i]])
        alone = make(1, scenes=ROOMS[scene])
        alone.reset(options={"episode_index": np.array([env.episodes.episode[i]])})
        np.testing.assert_array_equal(alone.episodes.goal[0], env.episodes.goal[i])
        seen = alone.set_pose(env.agents.position[i : i + 1], env.agents.heading[i : i + 1])
        drawn = env.set_pose(env.agents.position, env.agents.heading)
        np.testing.assert_array_equal(seen["depth"][0], drawn["depth"][i])


def test_who_is_not_reset_keeps_the_scene(make):
    env = make(autoreset_mode="disabled", max_episode_steps=1000)
    env.reset(seed=0)
    held = env.library.source_index[env.agents.slot]
    for _ in range(60):
        env.step(np.full(6, 2))
        env.reset(options={"reset_mask": np.arange(6) == 0})
    np.testing.assert_array_equal(env.library.source_index[env.agents.slot][1:], held[1:])
    assert env.library.stats()["swaps"] >= 1


def test_by_default_few_scenes_are_all_resident_and_of_many_one_for_32_environments(make):
    assert len(make(4, scenes=ROOMS[:8]).library.active) == 8
    assert len(make(4, scenes=ROOMS).library.active) == 1
    assert len(make(65, scenes=ROOMS).library.active) == 3
    assert len(make(4, scenes=ROOMS, episodes=ONCE).library.active) == COUNT
    with pytest.raises(ValueError, match="all scenes to be resident"):
        make(4, episodes=ONCE)
    assert len(make(4, scenes=Scenes(ROOMS, resident=COUNT), episodes=ONCE).library.active) == COUNT
    env = make(4)
    with pytest.raises(ValueError, match="all scenes to be resident"):
        env.reset(options={"episode_order": "once"})
    with pytest.raises(ValueError, match="all scenes to be resident"):
        make(2, library=env.library, scenes=None, episodes=ONCE)
    assert env.library.num_users == 1
    with pytest.raises(ValueError, match="resident=0"):
        Scenes(resident=0)


def test_episodes_that_run_once_in_too_few_scenes_are_refused_before_anything_is_loaded(make, tmp_path, monkeypatch):
    for room in ROOMS[:3]:
        save_glb(room, tmp_path / f"{room.name}.glb")
    monkeypatch.setattr("gym_batchnav.library.sources.load_scene", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ValueError, match=r"pass 2 scenes instead of 3, or leave out resident=2"):
        make(4, scenes=Scenes(tmp_path, resident=2), episodes=ONCE)


def test_the_limit_is_told_as_the_user_wrote_it(make):
    with pytest.raises(ValueError, match="no scene fits into max_bytes=1000: "):
        make(scenes=replace(ROTATING, max_bytes=1000))


def test_a_scene_where_the_agent_cannot_stand_is_left_out(make):
    tiny = box_room("tiny", width=0.4, depth=0.4)
    with pytest.warns(UserWarning, match="tiny"):
        env = make(scenes=[tiny, *ROOMS[:2]])
    env.reset(seed=0)
    assert {env.scene_name(i) for i in range(6)} == {"room_0", "room_1"}
    with pytest.raises(ValueError, match="tiny"):
        make(scenes=tiny)


def test_episodes_may_be_chosen_in_the_scene_that_is_entered(make):
    env = make()
    env.reset(seed=0)
    walk(env, 100)
    entered = env.library.active[(np.arange(6) + env.episodes.count) % 3]
    requested = np.array([3, 1, 4, 1, 5, 9])
    _, info = env.reset(options={"episode_index": requested})
    np.testing.assert_array_equal(info["episode_index"], requested)
    np.testing.assert_array_equal(env.agents.slot, entered)
    with pytest.raises(ValueError, match=r"episode_index\[2\] = 40: environment 2 enters"):
        env.reset(options={"episode_index": np.array([0, 0, 40, 0, 0, 0])})


def test_a_library_brings_its_scenes_with_it(make):
    library = SceneLibrary.from_scenes(ROOMS[:2])
    for keywords in ({"scenes": ROOMS}, {"scenes": Scenes(resident=2)}, {"scenes": Scenes(max_bytes=10**9)}):
        with pytest.raises(ValueError, match="library="):
            BatchNavEnv(1, library=library, **keywords)
