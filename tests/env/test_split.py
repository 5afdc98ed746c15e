"""A split batch: its parts together are the batch that was not split."""

import numpy as np
import pytest
from rooms import box_room
from walks import assert_equal, walk

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.testing import check_vector_env

NUM_ENVS, STEPS = 6, 120
ROOMS = [box_room(f"room_{i}", width=5 + i, depth=4 + i / 2) for i in range(7)]
ROTATING = {"resident_scenes": 3, "rotate_every": 10, "deterministic_rotation": True, "scenes": ROOMS}


@pytest.fixture
def make(tmp_path):
    made = []

    def make(num_envs=NUM_ENVS, **kwargs):
        keywords = {"scenes": ROOMS[:4], "num_episodes": 30, "cache_dir": tmp_path, "max_episode_steps": 25}
        keywords |= {"camera": Camera(16, 16), "renderer": "embree", **kwargs}
        made.append(BatchNavEnv(num_envs, **keywords))
        return made[-1]

    yield make
    for env in made:
        env.close()


def joined(results):
    """What several parts returned, as the whole batch would have: arrays one after the other, masked infos too."""
    first = results[0]
    if isinstance(first, dict):
        names = {name: next(one[name] for one in results if name in one) for one in results for name in one}
        return {name: joined([one.get(name, blank(like, one)) for one in results]) for name, like in names.items()}
    return np.concatenate(results)


def blank(like, info):
    """What stands in a batch's infos where only other environments have something: zeros."""
    size = len(next(values for values in info.values() if not isinstance(values, dict)))
    if isinstance(like, dict):
        return {name: blank(values, info) for name, values in like.items()}
    return np.zeros((size, *like.shape[1:]), like.dtype)


def assert_nearly_equal(left, right, err_msg=""):
    """A graphics device rounds by where on its surface a picture is drawn."""
    assert (np.abs(left - right) < 1e-5).mean() > 0.999, err_msg


def assert_same(left, right, rows=slice(None), equal=np.testing.assert_array_equal):
    """Observations or infos are the same, to the bit; of what lies within them, those that the masks name."""
    assert left.keys() == right.keys()
    for name in left:
        if isinstance(left[name], dict):
            assert_same(left[name], right[name], left[f"_{name}"], equal)
        else:
            (equal if name == "depth" else np.testing.assert_array_equal)(
                left[name][rows], right[name][rows], err_msg=name
            )


def assert_parts_are(whole, parts, actions, equal=np.testing.assert_array_equal):
    """Stepping the parts in turn, each received after the next is sent, gives what stepping the whole gives."""
    size = parts[0].num_envs
    for now in actions:
        expected, found = whole.step(now), []
        for index, part in enumerate(parts):
            part.send(now[index * size : (index + 1) * size])
            if index > 0:
                found.append(parts[index - 1].recv())
        found.append(parts[-1].recv())
        columns = [joined(list(column)) for column in zip(*found, strict=True)]
        for left, right in zip(expected[1:4], columns[1:4], strict=True):
            np.testing.assert_array_equal(left, right)
        assert_same(expected[0], columns[0], equal=equal)
        assert_same(expected[4], columns[4], equal=equal)


def random_actions(steps=STEPS, seed=0):
    return np.random.default_rng(seed).choice(4, (steps, NUM_ENVS), p=[0.04, 0.5, 0.23, 0.23])


class TestTheWhole:
    @pytest.mark.parametrize("count", [1, 2, 3, 6])
    @pytest.mark.parametrize("mode", ["next_step", "same_step"])
    def test_parts_do_what_the_whole_does(self, make, count, mode):
        whole, divided = make(autoreset_mode=mode), make(autoreset_mode=mode)
        parts = divided.split(count)
        expected, _ = whole.reset(seed=5)
        assert_same(expected, joined([part.reset(seed=5)[0] for part in parts]))
        assert_parts_are(whole, parts, random_actions())
        assert whole.episodes.count.min() > 2

    @pytest.mark.parametrize("mode", ["next_step", "same_step"])
    @pytest.mark.parametrize("count", [2, 3])
    def test_also_while_scenes_rotate(self, make, count, mode):
        whole, divided = (make(autoreset_mode=mode, sensors=("depth", "semantic"), **ROTATING) for _ in range(2))
        parts = divided.split(count)
        for seed in (5, 8):  # the plan begins anew with each seed
            whole.reset(seed=seed), [part.reset(seed=seed) for part in parts]
            assert_parts_are(whole, parts, random_actions(seed=seed))
            assert divided.library.stats()["swaps"] == whole.library.stats()["swaps"] > 2
        assert len({*whole.library.source_index[whole.agents.slot]}) > 1

    def test_also_with_one_queue_of_episodes(self, make):
        whole, divided = make(episode_order="once", num_episodes=5), make(episode_order="once", num_episodes=5)
        parts = divided.split(2)
        whole.reset(seed=1), [part.reset(seed=1) for part in parts]
        assert_parts_are(whole, parts, random_actions(150))
        assert not whole.episodes.valid.any()
        mode = {"episode_order": "random"}
        whole.reset(seed=2, options=mode), [part.reset(seed=2, options=mode) for part in parts]
        assert_parts_are(whole, parts, random_actions(10))
        assert divided.episodes.valid.all()

    def test_also_where_they_are_reset_by_hand(self, make):
        whole, divided = make(autoreset_mode="disabled"), make(autoreset_mode="disabled")
        parts = divided.split(2)
        whole.reset(seed=3), [part.reset(seed=3) for part in parts]
        for now in random_actions(60):
            *_, terminated, truncated, _ = whole.step(now)
            ended = terminated | truncated
            for part, own in zip(parts, np.split(now, 2), strict=True):
                part.step(own)
            if ended.any():
                whole.reset(options={"reset_mask": ended})
                for part, own in zip(parts, np.split(ended, 2), strict=True):
                    if own.any():
                        part.reset(options={"reset_mask": own})
            np.testing.assert_array_equal(whole.agents.position, divided.agents.position)
        assert whole.episodes.count.max() > 2

    def test_chosen_episodes_are_those_of_the_scene_that_each_enters(self, make):
        whole, divided = make(**ROTATING), make(**ROTATING)
        parts, wanted = divided.split(3), np.array([3, 1, 4, 1, 5, 9])
        expected = whole.reset(seed=0, options={"episode_index": wanted})[0]
        found = [
            part.reset(seed=0, options={"episode_index": own})[0]
            for part, own in zip(parts, np.split(wanted, 3), strict=True)
        ]
        assert_same(expected, joined(found))

    def test_a_batch_is_split_as_it_stands_and_joined_by_closing_its_parts(self, make):
        whole, divided = make(), make()
        actions = random_actions(90)
        for env in (whole, divided):
            env.reset(seed=4)
            for now in actions[:30]:
                env.step(now)
        parts = divided.split(2)
        assert_parts_are(whole, parts, actions[30:60])
        for part in parts:
            part.close()
        assert_parts_are(whole, [divided], actions[60:])
        assert len(divided.split(3)) == 3

    def test_a_state_is_of_all_parts_and_of_the_whole(self, make):
        whole, divided, other = make(), make(), make()
        parts = divided.split(2)
        for part in parts:
            part.reset(seed=6)
        for now in random_actions(40):
            for part, own in zip(parts, np.split(now, 2), strict=True):
                part.step(own)
        state = divided.get_state()
        others = other.split(3)
        expected = whole.set_state(state)
        others[1].reset(seed=9)
        others[1].send(np.zeros(2, int))  # a step that is let go of
        assert_same(expected, other.set_state(state))
        assert_parts_are(whole, others, random_actions(40, seed=1))

    def test_what_parts_are_asked_is_asked_of_their_agents(self, make):
        whole, divided = make(render_mode="rgb_array"), make(render_mode="rgb_array")
        parts = divided.split(2)
        whole.reset(seed=2), [part.reset(seed=2) for part in parts]
        np.testing.assert_array_equal(
            whole.shortest_path_actions(), np.concatenate([part.shortest_path_actions() for part in parts])
        )
        for pictures in (np.concatenate([part.pictures(size=32) for part in parts]), divided.pictures(size=32)):
            np.testing.assert_array_equal(whole.pictures(size=32), pictures)
        assert len(parts[1].render()) == 3
        names = [part.scene_name(i) + part.episode_name(i) for part in parts for i in range(3)]
        assert names == [whole.scene_name(i) + whole.episode_name(i) for i in range(6)]
        heading = whole.agents.heading + 0.5
        expected = whole.set_pose(whole.agents.position, heading)
        found = [part.set_pose(part.agents.position, part.agents.heading + 0.5) for part in parts]
        assert_same(expected, joined(found))


class TestOneStepEach:
    def test_steps_of_all_parts_may_be_under_way(self, make):
        env, other = make(), make()
        parts, others = env.split(2), other.split(2)
        for part in (*parts, *others):
            part.reset(seed=0)
        parts[0].send(np.ones(3, int)), parts[1].send(np.full(3, 2))
        second, first = parts[1].recv(), parts[0].recv()
        assert_equal(first[0], others[0].step(np.ones(3, int))[0])
        assert_equal(second[0], others[1].step(np.full(3, 2))[0])

    @pytest.mark.opengl
    @pytest.mark.parametrize("reuse_buffers", [False, True])
    def test_targets_of_parts_do_not_mix_on_a_graphics_device(self, make, reuse_buffers):
        keywords = {"autoreset_mode": "same_step", "renderer": "opengl", "reuse_buffers": reuse_buffers, **ROTATING}
        whole, divided = make(**keywords), make(**keywords)
        parts = divided.split(2)
        whole.reset(seed=5), [part.reset(seed=5) for part in parts]
        assert_parts_are(whole, parts, random_actions(60), assert_nearly_equal)

    def test_scenes_that_left_are_not_looked_into(self, make):
        """One part draws across the steps at which the other has scenes change."""
        env = make(autoreset_mode="same_step", **ROTATING)
        first, second = env.split(2)
        first.reset(seed=0), second.reset(seed=0)
        second.send(np.ones(3, int))
        for now in random_actions(100):
            first.step(now[:3])
            second.recv()
            second.send(now[3:])
        assert env.library.stats()["swaps"] > 3

    def test_a_scene_stays_for_the_last_part_that_is_in_it(self, make):
        env = make(max_episode_steps=1000, **ROTATING)
        first, second = env.split(2)
        first.reset(seed=0), second.reset(seed=0)
        scenes = env.library.source_index[second.agents.slot].copy()
        for _ in range(80):
            first.step(np.zeros(3, int))  # STOP, so that its agents move on
            second.step(np.full(3, 2))
        np.testing.assert_array_equal(env.library.source_index[second.agents.slot], scenes)
        assert env.library.stats()["swaps"] == 1 and set(first.agents.slot) != set(second.agents.slot)


class TestWrongUse:
    def test_a_split_batch_does_not_step_itself(self, make):
        env = make()
        env.reset(seed=0)
        env.split(2)
        here = env.agents.position.copy(), env.agents.heading.copy()
        for use in (
            env.reset,
            lambda: env.step(np.zeros(6, int)),
            lambda: env.set_pose(*here),
            lambda: env.split(3),
        ):
            with pytest.raises(RuntimeError, match="call it on its parts, or close"):
                use()

    def test_impossible_parts_are_refused(self, make):
        env = make()
        for count in (0, -2, 2.0, True):
            with pytest.raises(ValueError, match="count="):
                env.split(count)
        with pytest.raises(ValueError, match=r"split\(4\) of 6 environments: give a divisor of 6"):
            env.split(4)
        env.reset(seed=0)
        env.send(np.zeros(6, int))
        with pytest.raises(RuntimeError, match="recv"):
            env.split(2)

    def test_a_plan_that_begins_anew_begins_for_all(self, make):
        env = make()
        first, second = env.split(2)
        with pytest.raises(RuntimeError, match="reset"):
            env.get_state()
        for options in ({}, {"options": {"episode_order": "once"}}):
            first.reset(seed=0), second.reset(seed=0)
            first.reset(), second.reset()  # the plan goes on, for each by itself
            second.step(np.zeros(3, int))
            first.reset(**options or {"seed": 1})
            for use in (lambda: second.step(np.zeros(3, int)), env.get_state):
                with pytest.raises(RuntimeError, match="before reset"):
                    use()
            second.reset(seed=1)
            second.step(np.zeros(3, int))
        with pytest.raises(ValueError, match="reset the first part with it"):
            second.reset(options={"episode_order": "random"})

    @pytest.mark.parametrize("count", [1, 2])
    def test_a_plan_that_began_anew_without_episodes_leaves_nobody_in_other_scenes(self, make, count):
        env = make(sensors=(), **ROTATING)
        parts = env.split(count) if count > 1 else (env,)
        for part in parts:
            part.reset(seed=0)
        walk(parts[0], 3 * ROTATING["rotate_every"])
        scenes = env.library.source_index.tolist()
        beyond = np.full(6 // count, 50)  # of 30 a scene, and 120 in all slots
        with pytest.raises(ValueError, match="which it enters, has 30"):
            parts[0].reset(seed=1, options={"episode_index": beyond})
        assert env.library.source_index.tolist() != scenes
        for part in parts:
            for use in (lambda part=part: walk(part, 1), part.shortest_path_actions):
                with pytest.raises(RuntimeError, match="before reset"):
                    use()
        for part in parts:
            part.reset(seed=1)
            walk(part, 3)

    def test_nothing_is_asked_of_the_whole_while_a_part_steps(self, make):
        env = make()
        first, second = env.split(2)
        first.reset(seed=0), second.reset(seed=0)
        second.send(np.zeros(3, int))
        for use in (env.get_state, env.pictures):
            with pytest.raises(RuntimeError, match="recv"):
                use()
        first.step(np.zeros(3, int))

    def test_closing_the_batch_closes_its_parts(self, make):
        env = make()
        parts = env.split(2)
        for part in parts:
            part.reset(seed=0)
        users = len(env.library._users)
        env.close()
        assert len(env.library._users) == users - 1
        with pytest.raises(RuntimeError, match="after close"):
            parts[1].step(np.zeros(3, int))
        parts[0].close(), env.close()

    def test_parts_that_are_closed_in_the_middle_of_a_step_give_the_batch_back(self, make):
        env = make(4)
        env.reset(seed=0)
        one, two = env.split(2)
        one.send(np.ones(2, int))
        one.close(), two.close()
        before = env.episodes.num_steps.copy()
        env.step(np.ones(4, int))
        np.testing.assert_array_equal(env.episodes.num_steps, before + 1)
        assert env.get_state()["episodes"]["num_steps"].tolist() == (before + 1).tolist()

    def test_closing_a_part_leaves_the_others(self, make):
        env = make()
        first, second = env.split(2)
        first.reset(seed=0), second.reset(seed=0)
        first.close()
        for _ in range(3):
            second.step(np.ones(3, int))
        assert env.episodes.num_steps.tolist() == [0, 0, 0, 3, 3, 3]


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_parts_keep_gymnasiums_contract(make, mode):
    for index, skip in ((0, ()), (1, ("environment_seeds",))):  # seeds count from the first of the whole batch
        check_vector_env(
            lambda index=index: make(autoreset_mode=mode).split(2)[index], steps=60, strict=True,
            skip=skip,
        )  # fmt: skip
