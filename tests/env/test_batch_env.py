"""BatchNavEnv in small rooms, tested through its public interface."""

import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rooms import box, box_room, scene_of
from walks import assert_equal, walk

import gym_batchnav  # noqa: F401 - registers the environments
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.cameras import PICTURE_TARGETS
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import Fisheye
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.task.imagenav import ImageNav

STOP, FORWARD, LEFT, RIGHT = range(4)


@pytest.fixture
def make(library, opened):
    def make(num_envs=4, **kwargs):
        keywords = {"library": library, "episodes": 50, "camera": Camera(16, 16), **kwargs}
        return opened(BatchNavEnv(num_envs, **keywords))

    return make


class TestContract:
    @pytest.mark.parametrize("buffers", [1, 3])
    def test_reused_buffers_stay_valid_as_long_as_promised(self, make, buffers):
        env = make(2, buffers=buffers)
        env.reset(seed=0)
        held = []
        for _ in range(12):
            depth = env.step(np.array([LEFT, RIGHT]))[0]["depth"]
            held.append((depth, depth.copy()))
            for array, copy in held[-buffers - 1 :]:
                np.testing.assert_array_equal(array, copy)
        assert any(np.shares_memory(held[-1][0], array) for array, _ in held[:-1])

    def test_render_gives_a_frame_an_environment(self, make):
        env = make(3, render_mode="rgb_array")
        env.reset(seed=0)
        frames = env.render()
        assert isinstance(frames, tuple) and len(frames) == 3
        assert frames[0].shape == (256, 256, 3) and frames[0].dtype == np.uint8 and frames[0].std() > 5
        assert all(np.array_equal(a, b) for a, b in zip(frames, env.call("render"), strict=True))
        np.testing.assert_array_equal(env.pictures(np.array([2, 0]), 32), env.pictures(size=32)[[2, 0]])
        assert make(1).render() is None

    @pytest.mark.parametrize("episode_order", ["random", "once"])
    def test_infos_are_fresh_numbers(self, make, episode_order):
        env = make(4, sensors=(), episodes=Episodes(order=episode_order, count=3), max_episode_steps=4)
        last = env.reset(seed=0)[1]
        names = {"scene_index", "episode_index", "distance_to_goal", "path_length", "collisions_count"}
        for *_, info in walk(env, 30):
            assert names <= set(info) and all(value.dtype.kind in "biuf" for value in info.values())
            assert not any(np.shares_memory(info[name], last[name]) for name in last if name in info)
            last = info

    def test_attributes_are_shared_by_the_batch(self, make):
        env = make(3)
        assert env.get_attr("max_episode_steps") == (500, 500, 500)
        env.set_attr("max_episode_steps", [7, 7, 7])
        assert env.max_episode_steps == 7
        with pytest.raises(ValueError, match="share"):
            env.set_attr("max_episode_steps", [7, 8, 7])
        assert env.call("max_episode_steps") == (7, 7, 7)

    def test_send_and_recv_are_step_in_two_halves(self, make):
        one = make(3)
        two = make(3)
        one.reset(seed=5), two.reset(seed=5)
        for actions in np.random.default_rng(0).integers(1, 4, (20, 3)):
            two.send(actions)
            first = one.step(actions)
            second = two.recv()
            assert_equal(first[0], second[0])
            np.testing.assert_array_equal(first[1], second[1])


class TestPhysics:
    def test_a_wall_two_metres_ahead_reads_two_metres(self, make):
        env = make(1, camera=Camera(normalize_depth=False))
        env.reset(seed=0, options={"episode_index": np.array([0])})  # a room of 8 m by 6 m, and a wall at x = 0.1
        start = env.simulator.navmesh(0).snap(np.array([[2.1, 0.0, -2.0]], np.float32))
        depth = env.set_pose(start, np.array([np.pi / 2]))["depth"][0, ..., 0]
        assert depth[31:33, 31:33] == pytest.approx(2.0, abs=0.06)  # snapping moves by less than a cell
        assert np.ptp(depth[32, :40]) < 1e-3  # depth along the axis, not along the ray

    def test_pushing_a_wall_counts_collisions_and_no_path_until_the_next_episode(self, make):
        env = make(1)
        env.reset(seed=0, options={"episode_index": np.array([0])})
        env.set_pose(env.simulator.navmesh(0).snap(np.array([[3.5, 0.0, 2.0]], np.float32)), np.array([-np.pi / 2]))
        infos = [env.step(np.array([FORWARD]))[4] for _ in range(6)]
        assert infos[-1]["collisions_count"][0] >= 4
        assert infos[-1]["path_length"][0] == pytest.approx(infos[-3]["path_length"][0], abs=1e-4)
        assert infos[-1]["path_length"][0] < 0.5
        info = env.reset()[1]
        assert info["collisions_count"][0] == 0 and info["path_length"][0] == 0

    def test_an_agent_put_on_another_island_is_infinitely_far_and_gets_no_progress(self):
        rooms = scene_of("rooms", box((0, 0, 0), (5, 2.6, 5), True), box((5.3, 0, 0), (10, 2.6, 5), True))
        env = BatchNavEnv(1, scenes=rooms, sensors=(), episodes=20)
        env.reset(seed=0)
        elsewhere = 10.0 - env.agents.position[0, 0]  # the rooms mirror each other
        env.set_pose(env.simulator.navmesh(0).snap(np.array([[elsewhere, 0, 2.5]])), np.zeros(1))
        _, reward, _, _, info = env.step(np.array([FORWARD]))
        assert info["distance_to_goal"][0] == np.inf and reward[0] == pytest.approx(-0.01)
        env.close()


class TestAutoreset:
    """The three modes, step by step, with episodes of two steps."""

    def table(self, env, steps):
        """Return per step: truncated, whether the reward is not 0, number of steps, number of episodes."""
        env.reset(seed=0)
        rows = []
        for _ in range(steps):
            _, reward, terminated, truncated, _ = env.step(np.full(env.num_envs, LEFT))
            rows.append((truncated[0], reward[0] != 0, env.episodes.num_steps[0], env.episodes.count[0]))
            assert not terminated.any()
        return rows

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("next_step", [(False, True, 1, 1), (True, True, 2, 1), (False, False, 0, 2), (False, True, 1, 2)]),
            (
                AutoresetMode.SAME_STEP,
                [(False, True, 1, 1), (True, True, 0, 2), (False, True, 1, 2), (True, True, 0, 3)],
            ),
        ],
    )
    def test_next_step_spends_a_step_on_the_reset_and_same_step_begins_at_once(self, make, mode, expected):
        assert self.table(make(2, max_episode_steps=2, autoreset_mode=mode), 4) == expected

    def test_disabled_waits_for_a_masked_reset(self, make):
        env = make(3, max_episode_steps=2, autoreset_mode="disabled")
        assert self.table(env, 2) == [(False, True, 1, 1), (True, True, 2, 1)]
        with pytest.raises(RuntimeError, match="reset_mask"):
            env.step(np.full(3, LEFT))
        env.reset(options={"reset_mask": np.array([True, True, False])})
        np.testing.assert_array_equal(env.episodes.num_steps, [0, 0, 2])
        with pytest.raises(RuntimeError, match="environment 2"):
            env.step(np.full(3, LEFT))
        env.reset(options={"reset_mask": np.array([False, False, True])})
        env.step(np.full(3, LEFT))
        np.testing.assert_array_equal(env.episodes.num_steps, [1, 1, 1])

    @pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
    def test_paused_environments_keep_their_state(self, make, mode):
        env, twin = (make(3, max_episode_steps=2, autoreset_mode=mode) for _ in range(2))
        env.reset(seed=0), twin.reset(seed=0)
        env.step(np.full(3, LEFT)), twin.step(np.full(3, LEFT))
        before = env.get_state()
        depth = env.set_pose(env.agents.position, env.agents.heading)["depth"]
        for _ in range(2):  # without the pause, environment 1 would end its episode in the first of these steps
            with env.paused(np.array([False, True, False])):
                observation, reward, terminated, truncated, _ = env.step(np.full(3, FORWARD))
            expected = twin.step(np.full(3, FORWARD))
            for found, whole in zip((observation["depth"], reward), (expected[0]["depth"], expected[1]), strict=True):
                np.testing.assert_allclose(found[[0, 2]], whole[[0, 2]], atol=1e-6)
            assert reward[1] == 0 and not (terminated | truncated)[1]
            np.testing.assert_array_equal(observation["depth"][1], depth[1])
            for one in (env, twin):
                if mode == "disabled" and one.episodes.done[0]:
                    one.reset(options={"reset_mask": one.episodes.done.copy()})
        after = env.get_state()
        for part in ("agents", "episodes"):
            for name, values in before[part].items():
                np.testing.assert_array_equal(values[1], after[part][name][1], err_msg=name)
        assert env.step(np.full(3, LEFT))[3][1], "its second action comes after the pause"

    def test_an_environment_that_is_paused_after_its_end_begins_its_next_episode_afterwards(self, make):
        env = make(2, max_episode_steps=1)
        env.reset(seed=0)
        assert env.step(np.full(2, LEFT))[3].all()
        with env.paused(np.array([True, False])):
            env.step(np.full(2, LEFT))
        assert env.episodes.count.tolist() == [1, 2] and env.episodes.done.tolist() == [True, False]
        env.step(np.full(2, LEFT))
        assert env.episodes.count.tolist() == [2, 2]

    def test_a_reset_without_an_action_begins_the_same_episodes_that_run_once(self, make):
        env = make(3, episodes=Episodes(order="once", count=50))
        first = env.reset(seed=0)[1]["episode_index"].tolist()
        for options in (None, {"reset_mask": np.array([False, True, False])}):
            assert env.reset(options=options)[1]["episode_index"].tolist() == first
        assert env.episodes.count.tolist() == [1, 1, 1]
        with env.paused(np.array([False, True, True])):
            env.step(np.full(3, LEFT))
        later = env.reset()[1]["episode_index"].tolist()
        assert later[1:] == first[1:] and later[0] not in first
        again = env.reset(options={"episode_order": "once", "episodes": np.array([7, 8])})[1]
        assert again["episode_index"][:2].tolist() == [7, 8] and again["episode_valid"].tolist() == [True, True, False]

    def test_wrappers_that_draw_from_np_random_are_repeatable(self, make):
        env = make(2)
        draws = []
        for seed in (3, [3, 5]):
            env.reset(seed=seed)
            draws.append(env.np_random.random())
        assert draws[0] == draws[1]

    def test_targets_of_pictures_of_other_sizes_are_released(self, make):
        env = make(2)
        env.reset(seed=0)
        for size in range(8, 20):
            env.pictures(size=size)
        assert len(env.cameras._picture_targets) == PICTURE_TARGETS

    def test_the_distances_of_agents_that_neither_act_nor_are_moved_stay_to_the_last_bit(self, make):
        env = make(9)
        env.reset(seed=0)
        before = env.episodes.distance.copy()
        with env.paused(np.arange(9) < 8):
            env.step(np.full(9, LEFT))
        env.set_pose(env.agents.position, env.agents.heading, np.arange(9) == 8)
        np.testing.assert_array_equal(env.episodes.distance[:8], before[:8])

    def test_pauses_add_up_and_copy_their_masks(self, make):
        env = make(3)
        env.reset(seed=0)
        mask = np.array([True, False, False])
        with env.paused(mask):
            with env.paused(np.array([False, True, False])):
                env.step(np.full(3, LEFT))
            mask[:] = False
            env.step(np.full(3, LEFT))
        env.step(np.full(3, LEFT))
        assert env.episodes.num_steps.tolist() == [1, 2, 3]

    def test_same_step_reports_the_final_observation_and_info(self, make):
        same, disabled = (make(3, max_episode_steps=4, autoreset_mode=mode) for mode in ("same_step", "disabled"))
        same.reset(seed=0), disabled.reset(seed=0)
        for actions in np.random.default_rng(0).integers(1, 4, (4, 3)):
            observation, reward, _, truncated, info = same.step(actions)
            last, last_reward, _, _, last_info = disabled.step(actions)
        assert truncated.all() and info["_final_obs"].all() and info["_final_info"].all()
        assert_equal(info["final_obs"], last)
        assert_equal(info["final_info"], last_info)
        np.testing.assert_array_equal(reward, last_reward)
        begun, begun_info = disabled.reset(options={"reset_mask": np.ones(3, bool)})
        assert_equal(observation, begun)
        assert all(np.array_equal(info[name], begun_info[name]) for name in begun_info)

    def test_final_observations_fill_only_their_rows(self, make):
        env = make(3, autoreset_mode="same_step")
        env.reset(seed=0)
        info = env.step(np.array([LEFT, STOP, LEFT]))[4]
        np.testing.assert_array_equal(info["_final_obs"], [False, True, False])
        assert [depth.any() for depth in info["final_obs"]["depth"]] == [False, True, False]
        assert "success" in info["final_info"] and "success" not in info

    def test_end_measures_come_with_the_end_only_and_are_zero_elsewhere(self, make):
        env = make(2, sensors=())
        env.reset(seed=0)
        for _ in range(30):
            actions = env.shortest_path_actions()
            assert "soft_spl" not in env.step(np.where(actions == STOP, LEFT, actions))[4]
        info = env.step(np.array([STOP, LEFT]))[4]
        np.testing.assert_array_equal(info["_soft_spl"], [True, False])
        assert all(info[name][1] == 0 for name in ("success", "spl", "soft_spl"))

    def test_every_episode_runs_once_and_environments_without_one_stand_still(self, make):
        env = make(8, episodes=Episodes(order="once", count=10), max_episode_steps=3, sensors=())
        _, info = env.reset(seed=0)
        seen = []
        for _ in range(40):
            _, reward, terminated, truncated, info = env.step(np.full(8, LEFT))
            ended = terminated | truncated
            seen += list(info["episode_index"][ended])
            assert (reward[~info["episode_valid"]] == 0).all()
        assert sorted(seen) == list(range(20))
        assert not info["episode_valid"].any()
        pose = env.agents.position.copy(), env.agents.heading.copy()
        for action in (LEFT, FORWARD):
            env.step(np.full(8, action))
        np.testing.assert_array_equal(env.agents.position, pose[0])
        np.testing.assert_array_equal(env.agents.heading, pose[1])
        _, info = env.reset(options={"episode_order": "once"})
        assert info["episode_valid"].all()


class TestSeeding:
    def test_environment_i_equals_a_single_one_seeded_s_plus_i(self, make):
        """A batch of N equals N batches of one, in one scene, to the bit, over several episodes."""
        library = SceneLibrary.from_scenes([box_room("first")])
        keywords = {"library": library, "sensors": ("depth", "rgb", "semantic"), "max_episode_steps": 12}
        batch = make(16, **keywords)
        actions = np.random.default_rng(0).integers(1, 4, (30, 16))
        together = [batch.reset(seed=40)[0]] + [batch.step(row)[0] for row in actions]
        for index in (0, 7, 15):
            single = make(1, **keywords)
            alone = [single.reset(seed=40 + index)[0]] + [single.step(row[index : index + 1])[0] for row in actions]
            for many, one in zip(together, alone, strict=True):
                assert_equal({name: values[[index]] for name, values in many.items()}, one)

    def test_environments_that_share_a_library_prepare_its_scenes_once(self, make, library, tmp_path):
        one = make(4, library=library)
        two = make(2, library=library, scenes=Scenes(cache_dir=tmp_path / "elsewhere"))
        assert one.simulator.navmesh(0) is two.simulator.navmesh(0)
        assert make(1, library=library, episodes=7).simulator.navmesh(0) is not one.simulator.navmesh(0)

    def test_seeds_of_none_are_drawn_at_first_and_kept_later(self, make):
        env = make(4)
        other = make(4)
        env.reset(seed=[None] * 4), other.reset()
        assert len({*env.episodes.seed, *other.episodes.seed}) == 8
        drawn = env.episodes.seed.copy()
        env.reset(seed=[5, None, None, 7])
        np.testing.assert_array_equal(env.episodes.seed, [5, drawn[1], drawn[2], 7])
        np.testing.assert_array_equal(env.episodes.count, [1, 2, 2, 1])
        env.reset(seed=np.arange(4, 8))
        np.testing.assert_array_equal(env.episodes.seed, [4, 5, 6, 7])

    def test_chosen_episodes_are_run(self, make):
        env = make(3)
        _, info = env.reset(seed=0, options={"episode_index": np.array([0, 50, 99])})
        np.testing.assert_array_equal(info["episode_index"], [0, 50, 99])
        assert [env.scene_name(i) for i in range(3)] == ["first", "second", "second"]
        assert env.episode_name(2) == "49"
        np.testing.assert_allclose(info["distance_to_goal"][0], env.simulator.episode_set(0).distance[0], rtol=1e-5)


class TestWrongUse:
    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"num_envs": 0}, "num_envs"),
            ({"max_episode_steps": 0}, "max_episode_steps"),
            ({"sensors": ("depth", "lidar")}, "lidar"),
            ({"sensors": None}, "sensors=None: pass a tuple"),
            ({"sensors": "depth"}, r"sensors='depth': pass a tuple, such as \('depth',\)"),
            ({"renderer": "vulkan"}, "vulkan"),
            ({"autoreset_mode": "never"}, "never"),
            ({"render_mode": "human"}, "human"),
            ({"task": 7}, "task=7 .*Task"),
            ({"buffers": 0}, "buffers=0"),
            ({"episodes": 1.5}, "episodes=1.5: pass a path"),
            ({"camera": 64}, "Camera"),
            (
                {"navmesh_settings": {"radius": 0.2}},
                r"such as NavMeshSettings\(agent_radius=.* of gym_batchnav\.navmesh",
            ),
        ],
    )
    def test_wrong_arguments_are_refused_by_name(self, make, wrong, named):
        with pytest.raises(ValueError, match=named):
            make(**wrong)

    @pytest.mark.parametrize(
        ("scenes", "error", "named"),
        [
            ("castle", ValueError, "castle"),
            ("nowhere/house.glb", FileNotFoundError, "house.glb"),
            ([], ValueError, "scene"),
            ("procedural:x", ValueError, "procedural"),
            (3.5, ValueError, "scenes=3.5"),
        ],
    )
    def test_unknown_scenes_are_refused_by_name(self, scenes, error, named):
        with pytest.raises(error, match=named):
            BatchNavEnv(1, scenes=scenes)

    def test_wrong_actions_are_refused_and_nothing_moves(self, make):
        env = make(2)
        env.reset(seed=0)
        before = env.agents.position.copy()
        with pytest.raises(ValueError, match="actions"):
            env.step(np.array([FORWARD, 4]))
        np.testing.assert_array_equal(before, env.agents.position)
        env.step(np.zeros(2, int))

    def test_step_before_reset_and_after_close(self, make):
        env = make(2)
        for use in (lambda: env.step(np.zeros(2, int)), env.pictures):
            with pytest.raises(RuntimeError, match="before reset"):
                use()
        env.reset(seed=0)
        env.close()
        env.close()
        for use in (lambda: env.step(np.zeros(2, int)), env.recv, env.reset, env.pictures):
            with pytest.raises(RuntimeError, match="close"):
                use()

    def test_wrong_reset_arguments(self, make):
        env = make(2)
        with pytest.raises(RuntimeError, match="first reset"):
            env.reset(options={"reset_mask": np.array([True, False])})
        for options, named in (
            ({"reset_mask": np.array([1, 0])}, "reset_mask"),
            ({"episode_index": np.array([0, 10_000])}, r"episode_index\[1\] = 10000: there are episodes 0 to 99"),
            ({"episode_index": np.array([-1, 0])}, r"episode_index\[0\] = -1: there are"),
            ({"episode_index": 3}, r"episode_index is int64 \(\): pass integers \(2,\)"),
            ({"episodes": [0]}, "also pass 'episode_order': 'once'"),
            ({"episode_order": "once", "episodes": [10**6]}, r"episodes\[0\] = 1000000: there are episodes 0 to"),
            ({"episode_order": "once", "episodes": [0.5]}, "pass integers"),
            ("x", "options='x': pass a dict"),
            ([("reset_mask", None)], "options=.*: pass a dict"),
        ):
            with pytest.raises(ValueError, match=named):
                env.reset(seed=0, options=options)
        with pytest.raises(ValueError, match="seeds"):
            env.reset(seed=[1, 2, 3], options={"episode_order": "once"})
        for seed in ("a", 1.5, [0, "a"]):
            with pytest.raises(ValueError, match="seed="):
                env.reset(seed=seed)
        with pytest.warns(UserWarning, match=r"reset options \['episode'\] are ignored: the known options"):
            env.reset(seed=0, options={"episode": 3})
        assert "episode_valid" not in env.step(np.array([LEFT, LEFT]))[4]  # the order of a refused reset

    def test_wrong_arguments_are_named(self, make):
        env = make(4)
        env.reset(seed=0)
        for use, message in (
            (
                lambda: env.set_pose(np.zeros((3, 3)), np.zeros(4)),
                r"position is float64 \(3, 3\): pass numbers \(4, 3\)",
            ),
            (lambda: env.set_pose(env.agents.position, np.zeros(3)), r"heading is float64 \(3,\): pass numbers \(4,\)"),
            (lambda: env.pictures([99]), "environment 99: there are environments 0 to 3"),
            (lambda: env.pictures([0.5]), r"indices are float64 \(1,\): pass integers \(M,\)"),
            (lambda: env.pictures(size=0), "size=0"),
            (lambda: env.scene_name(9), "environment 9: there are environments 0 to 3"),
            (lambda: env.episode_name(-1), "environment -1"),
            (lambda: env.navmesh_of(4), "environment 4"),
        ):
            with pytest.raises(ValueError, match=message):
                use()
        assert env.pictures([]).shape == (0, 256, 256, 3)
        for copied in (deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"BatchNavEnv cannot be copied or pickled.*get_state"):
                copied(env)

    def test_a_batch_that_does_not_fit_into_memory_is_refused_before_it_is_made(self, make):
        for sensors, remedy in (((), "use at most num_envs="), (("rgb",), "camera=, fewer sensors= or at most")):
            with pytest.raises(ValueError, match=rf"num_envs=1000000000: .* GiB.*available: .*{remedy}"):
                make(10**9, sensors=sensors)
        with pytest.raises(ValueError, match=r"num_envs=1000000: .*camera="):
            make(10**6, sensors=("rgb",), camera=Camera(1024, 1024))
        with pytest.raises(ValueError, match=r"at most num_envs=\d*[05],"):
            make(5 * 10**8, agents_per_world=5)

    def test_the_rays_of_lenses_count_as_memory(self, make, monkeypatch):
        small, large = (Camera(size, size, lens=Fisheye()) for size in (8, 1024))
        monkeypatch.setattr("gym_batchnav.env.config.available_memory", lambda: 200 * 2**20)
        make(1, camera=small)
        with pytest.raises(ValueError, match=r"and 27\d,\d{3},\d{3} together.*use a smaller camera"):
            make(1, camera=large)
        make(1, sensors=("rgb",), task=ImageNav(small))
        with pytest.raises(ValueError, match="use a smaller camera"):
            make(1, sensors=("rgb",), camera=small, task=ImageNav(large))

    def test_a_device_that_is_not_there_is_refused_when_the_environment_is_made(self, make):
        if Path("/dev/nvidiactl").exists():
            pytest.skip("there is an NVIDIA device")
        with pytest.raises((RuntimeError, ValueError), match="device='cuda'"):
            make(1, obs_device="cuda")

    def test_a_second_thread_is_refused_by_name(self, make):
        env = make(2)
        env.reset(seed=0)
        with ThreadPoolExecutor(1, thread_name_prefix="other") as pool:
            for use in (env.reset, lambda: env.step(np.zeros(2, int)), env.get_state, env.pictures):
                with pytest.raises(RuntimeError, match="in thread 'other_0': this environment belongs to thread"):
                    pool.submit(use).result()
        walk(env, 1)

    def test_a_wrong_pose_is_refused_and_nobody_moves(self, make):
        env = make(2)
        env.reset(seed=0)
        position = env.agents.position.copy()
        for wrong, heading, named in (
            ([position[0] + [0.01, 0, 0], [100, 0, 0]], [0, 0], "not navigable"),
            (position, [0, np.nan], "heading"),
            ([position[0], [np.nan, 0, 0]], [0, 0], "not navigable"),
        ):
            with pytest.raises(ValueError, match=named):
                env.set_pose(np.array(wrong), np.array(heading))
            np.testing.assert_array_equal(env.agents.position, position)
        for pitch in ([0, np.nan], [1.6, 0], [0, -1.6], [0], "up"):
            with pytest.raises(ValueError, match="pitch"):
                env.set_pose(position, np.ones(2), pitch=np.array(pitch))
            assert not env.agents.pitch.any() and (env.agents.heading != 1).all()
        walk(env, 2)

    def test_nothing_interferes_with_a_step_in_flight(self, make):
        env = make(2)
        env.reset(seed=0)
        env.send(np.array([LEFT, LEFT]))
        here = (env.agents.position.copy(), env.agents.heading.copy())
        uses = (lambda: env.send(np.array([LEFT, LEFT])), lambda: env.set_pose(*here), env.get_state, env.pictures)
        for use in (*uses, env.shortest_path_actions):
            with pytest.raises(RuntimeError, match="recv"):
                use()
        env.recv()
        env.send(np.array([LEFT, LEFT]))
        env.reset(seed=0)  # lets go of the step
        with pytest.raises(RuntimeError, match="send"):
            env.recv()
        walk(env, 2)

    def test_a_refused_environment_leaves_nothing_in_a_shared_library(self, library, make, tmp_path):
        before = len(library._preparers), library.num_users
        for wrong, message in (
            ({"renderer": "twice"}, "twice"),
            ({"sensors": (MapPath(),)}, "reads the image 'depth'"),
            ({"bodies": 3}, "bodies=3"),
        ):
            with pytest.raises(ValueError, match=message):
                make(1, **wrong)
        with pytest.raises(FileNotFoundError, match=r"^episodes='.*none\.json': the file does not exist"):
            make(1, episodes=tmp_path / "none.json")
        (tmp_path / "torn.json").write_text("{")
        said = rf"episodes= cannot be used: '?{re.escape(str(tmp_path / 'torn.json'))}'?: not a Habitat episode file"
        with pytest.warns(UserWarning, match=f"left out: {said}"), pytest.raises(ValueError, match=said):
            make(1, episodes=os.path.relpath(tmp_path / "torn.json"))  # absolute, as in processes that prepare scenes
        assert (len(library._preparers), library.num_users) == before

    @pytest.mark.parametrize(
        ("group", "wrong", "named"),
        [
            (Scenes, {"cache_dir": 5}, "cache_dir=5: pass a path"),
            (Scenes, {"rotate_every": 0}, "rotate_every=0"),
            (Scenes, {"deterministic_rotation": 1}, "deterministic_rotation=1"),
            (Scenes, {"texture_size": "small"}, "texture_size='small'"),
            (Episodes, {"count": 0}, "count=0"),
            (Episodes, {"order": "twice"}, "order='twice': choose one of 'random', 'once'"),
            (Episodes, {"floors": "upper"}, "floors='upper'"),
        ],
    )
    def test_values_of_a_group_are_refused_by_name(self, group, wrong, named):
        with pytest.raises(ValueError, match=named):
            group(**wrong)


class TestErrorsOnTheWay:
    def test_pictures_that_were_not_taken_are_not_taken_for_the_next(self, make, monkeypatch):
        env = make(2)
        other = make(2)
        for one in (env, other):
            one.reset(seed=0)

        def interrupted():
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(env.cameras, "finish", interrupted)
            env.step(np.array([LEFT, LEFT]))
        other.step(np.array([LEFT, LEFT]))
        assert_equal(env.step(np.array([RIGHT, FORWARD]))[0], other.step(np.array([RIGHT, FORWARD]))[0])

    def test_an_episode_that_ended_before_an_error_does_not_go_on(self, make, monkeypatch):
        env = make(2, autoreset_mode="same_step", max_episode_steps=3)
        env.reset(seed=0)
        env.step(np.array([LEFT, LEFT]))
        env.reset(options={"reset_mask": np.array([False, True])})
        env.step(np.array([LEFT, LEFT]))

        def broken(*_):
            raise RuntimeError("no pictures")

        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no pictures"):
            patch.setattr(env.cameras, "images_of", broken)
            env.step(np.array([LEFT, LEFT]))  # environment 0 ends
        env.step(np.array([LEFT, LEFT]))  # environment 1 ends
        assert env.episodes.num_steps.tolist() == [0, 0] and not env.episodes.done.any()

    def test_close_goes_through_with_everything(self, library, monkeypatch):
        env = BatchNavEnv(1, library=library, episodes=5)
        env.reset()
        users = len(library._users)

        def broken():
            raise RuntimeError("no context")

        monkeypatch.setattr(env.cameras, "close", broken)
        with pytest.raises(RuntimeError, match="no context"):
            env.close()
        assert len(library._users) == users - 1
