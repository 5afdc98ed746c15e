"""Rotation of scenes in a running environment."""

import errno
import threading
import time
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from rooms import box_room
from walks import assert_equal, walk

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.library.cache import CacheWarning
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.save import save_glb

COUNT = 12
ROOMS = [box_room(f"room_{i}", width=8 + i, depth=6 + i / 2) for i in range(COUNT)]
ROTATING = Scenes(ROOMS, resident=3, rotate_every=10, deterministic_rotation=True)
ONCE = Episodes(order="once", count=40)


@pytest.fixture
def make(opened):
    def make(num_envs=6, **kwargs):
        keywords = {"scenes": ROTATING, "episodes": 40, "max_episode_steps": 40, **kwargs}
        return opened(BatchNavEnv(num_envs, **keywords))

    return make


def test_agents_move_over_and_stay_on_the_ground(make):
    env = make()
    env.reset(seed=3)
    visited = set()
    last = None
    for step in range(600):
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
    assert len(visited) == COUNT and env.library.stats()["swaps"] > 10


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_deterministic_run_repeats_itself(make, mode):
    first = make(autoreset_mode=mode, sensors=("depth", "semantic"))
    second = make(autoreset_mode=mode, sensors=("depth", "semantic"), buffers=2)
    assert_equal(first.reset(seed=9)[0], second.reset(seed=9)[0])
    second.reset(seed=11)
    walk(second, 60)
    second.reset(seed=9)  # the plan begins anew, whatever went before
    for left, right in zip(walk(first, 250), walk(second, 250), strict=True):
        for a, b in zip(left[1:4], right[1:4], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(left[4]["scene_index"], right[4]["scene_index"])
    assert_equal(first.set_pose(first.agents.position, first.agents.heading),
                 second.set_pose(second.agents.position, second.agents.heading))  # fmt: skip
    assert first.library.stats()["swaps"] > 5


def test_a_run_goes_on_from_its_state(make):
    env = make()
    other = make()
    env.reset(seed=1)
    walk(env, 77)
    state = env.get_state()
    expected = walk(env, 150, seed=5)
    other.reset(seed=2)
    walk(other, 30)
    other.set_state(state)
    for left, right in zip(expected, walk(other, 150, seed=5), strict=True):
        assert_equal(left[0], right[0])
        np.testing.assert_array_equal(left[1], right[1])


@pytest.mark.parametrize("rotate_every", [1, 4])
def test_a_run_goes_on_from_any_of_its_states(make, rotate_every):
    """Also from one with a scene on its way, which arrives neither later nor is another one."""
    env = make(
        scenes=Scenes(ROOMS[:4], resident=2, rotate_every=rotate_every, deterministic_rotation=True),
        sensors=(),
        max_episode_steps=12,
    )
    other = make(
        scenes=Scenes(ROOMS[:4], resident=2, rotate_every=rotate_every, deterministic_rotation=True),
        sensors=(),
        max_episode_steps=12,
    )
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
        alone = BatchNavEnv(1, scenes=ROOMS[scene], episodes=40, renderer="embree")
        alone.reset(options={"episode_index": np.array([env.episodes.episode[i]])})
        np.testing.assert_array_equal(alone.episodes.goal[0], env.episodes.goal[i])
        seen = alone.set_pose(env.agents.position[i : i + 1], env.agents.heading[i : i + 1])
        drawn = env.set_pose(env.agents.position, env.agents.heading)
        np.testing.assert_array_equal(seen["depth"][0], drawn["depth"][i])
        alone.close()


def test_who_is_not_reset_keeps_the_scene(make):
    env = make(autoreset_mode="disabled", max_episode_steps=1000)
    env.reset(seed=0)
    held = env.library.source_index[env.agents.slot]
    mask = np.array([True] + 5 * [False])
    for _ in range(120):
        env.step(np.full(6, 2))
        env.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(env.library.source_index[env.agents.slot][1:], held[1:])
    assert env.library.stats()["swaps"] >= 1


def test_faults_cost_a_warning_and_a_scene_each(make):
    """A third of the scenes fail during the run, in every possible way."""
    errors = [FileNotFoundError("gone"), ValueError("cut short"), MemoryError("too large"), RecursionError("loop")]

    def load(index):
        if threading.current_thread() is not threading.main_thread() and index % 3 == 0:
            raise errors[index // 3]
        return ROOMS[index]

    sources = [SceneSource(f"room_{i}", lambda i=i: load(i)) for i in range(COUNT)]
    library = SceneLibrary(sources, 3, rotate_every=1)
    env = BatchNavEnv(6, library=library, episodes=40, max_episode_steps=30)
    env.reset(seed=0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        give_up = time.monotonic() + 120  # the loader yields to whatever else this machine does
        while time.monotonic() < give_up:
            env.step(env.shortest_path_actions())
            assert (library.source_index[env.agents.slot] >= 0).all()
            refused = library.stats()["refused"]
            failed = library.stats()["failed"]
            if len(refused) + len(failed) >= len(errors):
                break
    assert refused.keys() == {"room_3"}  # the others are tried again
    unusable = {**refused, **failed}
    expected = {"room_0": "gone", "room_3": "cut short", "room_6": "too large", "room_9": "loop"}
    assert unusable.keys() == expected.keys() and all(expected[name] in unusable[name] for name in expected)
    messages = sorted(
        str(one.message) for one in warned if "left out" in str(one.message) or "retried" in str(one.message)
    )
    assert len(messages) == len(expected)
    for name, reason in expected.items():
        assert any(f"'{name}'" in message and reason in message for message in messages)
    assert library.stats()["swaps"] >= 1
    env.close()


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


@pytest.mark.opengl
def test_what_scenes_take_on_the_device_is_known_and_limited(make):
    textures = (np.full((8, 8, 4), 200, np.uint8), np.full((8, 8, 4), 100, np.uint8))
    rooms = [replace(box_room(f"{i}"), textures=textures) for i in range(2)]
    for room in rooms:
        room.materials.texture[:] = 0, 1, 0
    keywords = {"renderer": "opengl", "sensors": ("depth", "rgb")}
    env = make(scenes=rooms, **keywords)
    env.reset(seed=0)
    stats = env.library.stats()
    # A room is 108 vertices (position 12 bytes, texture coordinates 8, colour 4), 36 triangles (corners 12, record 16)
    # and 3 materials (record 32, number of the texture 4); a texture has all levels from 256 x 256 to 1 x 1.
    room_bytes = 108 * 24 + 36 * 28 + 3 * 36 + 2 * 4 * (4**9 - 1) // 3
    assert stats["device_bytes"] == env.renderer._scenes.nbytes == 2 * room_bytes
    limited = make(scenes=Scenes(rooms, max_bytes=stats["bytes"]), **keywords)
    limited.reset(seed=0)
    assert limited.library.stats()["bytes"] == stats["bytes"]  # what is made of the scenes is shared, devices are not
    other = make_renderer("opengl", limited.library)
    with pytest.raises(ValueError, match=r"bytes of the graphics device, more than max_bytes"):
        other.target(limited.cameras.camera, ("depth", "rgb"))
    other.close()
    assert limited.library.stats()["device_bytes"] == stats["device_bytes"]


def test_a_scene_where_the_agent_cannot_stand_is_left_out(make):
    tiny = box_room("tiny", width=0.4, depth=0.4)
    with pytest.warns(UserWarning, match="tiny"):
        env = make(scenes=[tiny, *ROOMS[:2]])
    env.reset(seed=0)
    assert {env.scene_name(i) for i in range(6)} == {"room_0", "room_1"}
    with pytest.raises(ValueError, match="tiny"):
        make(scenes=tiny)


@pytest.mark.long  # processes are killed at random moments
def test_faults_in_10000_steps(make, tmp_path, monkeypatch):
    """Files vanish or are cut short, the process that prepares scenes is killed, then the disk fills up."""
    folder = tmp_path / "scenes"
    folder.mkdir()
    for room in ROOMS:
        save_glb(room, folder / f"{room.name}.glb")
    env = make(16, scenes=Scenes(folder, resident=3, rotate_every=1), sensors=(), max_episode_steps=25)
    env.reset(seed=2)
    resident = set(env.library.stats()["resident"])
    doomed = [room.name for room in ROOMS if room.name not in resident][-4:]
    (folder / f"{doomed[0]}.glb").unlink()
    for name, size in zip(doomed[1:], (0, 30, 900), strict=True):
        (folder / f"{name}.glb").write_bytes((folder / f"{name}.glb").read_bytes()[:size])

    refused_writes = []

    def full(path, *_):
        refused_writes.append(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")

        def of_a_lost_process():
            return [one for one in warned if "was lost" in str(one.message)]

        step = 0
        is_full = False
        give_up = time.monotonic() + 120
        while step < 10_000 or (len(env.library.stats()["refused"]) < 4 and time.monotonic() < give_up):
            worker = env.library._loader._prepare_ahead.__self__.child._process
            if of_a_lost_process():
                if not is_full:
                    is_full = True
                    monkeypatch.setattr("gym_batchnav.library.cache.write_atomically", full)
            elif worker is not None and worker.poll() is None:
                worker.kill()  # again, if it is started again for the same scene
            env.step(env.shortest_path_actions())
            assert (env.library.source_index[env.agents.slot] >= 0).all()
            step += 1
    stats = env.library.stats()
    assert set(stats["refused"]) == set(doomed) and stats["swaps"] >= 1
    left_out = [str(one.message) for one in warned if "left out" in str(one.message)]
    assert len(left_out) == 4 and all(any(f"'{name}'" in said for said in left_out) for name in doomed)
    assert len(of_a_lost_process()) == 1
    of_the_disk = [one for one in warned if issubclass(one.category, CacheWarning)]
    assert len(refused_writes) > 1 and len(of_the_disk) == 1 and "No space left" in str(of_the_disk[0].message)
    of_the_pace = [one for one in warned if "loading cannot keep up" in str(one.message)]
    assert len(of_the_pace) <= 1 and len(warned) - len(of_the_pace) == 4 + 1 + 1, [str(one.message) for one in warned]


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


def test_whoever_is_refused_does_not_stay(make):
    env = make()
    with pytest.raises(ValueError, match="all scenes to be resident"):
        BatchNavEnv(2, library=env.library, episodes=ONCE)
    env.reset(seed=0)
    walk(env, 120)
    assert env.library.stats()["swaps"] > 2
