"""Gymnasium's vector wrappers around the batch: tables of those that work, and of those that raise an error."""

from functools import partial

import numpy as np
import pytest
from gymnasium import wrappers as single
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector
from libraries import GYMNASIUM

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.geometry import Camera

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode
EVERY_MODE = (NEXT_STEP, SAME_STEP, DISABLED)
NOT_SAME_STEP = (NEXT_STEP, DISABLED)  # Gymnasium does not transform final_obs in general


@pytest.fixture
def make(library, tmp_path):
    made = []

    def make(mode=NEXT_STEP, **keywords):
        camera = Camera(width=16, height=12)
        sensors = ("depth", "rgb")
        keywords = {"library": library, "camera": camera, "sensors": sensors, "episodes": 50, **keywords}
        made.append(BatchNavEnv(3, autoreset_mode=mode, **keywords))
        return made[-1]

    yield make
    for env in made:
        env.close()


def picture(env):
    """Return the batch with ``rgb`` as its only observation, for wrappers that take one array."""
    spaces = {name: getattr(env, name)["rgb"] for name in ("observation_space", "single_observation_space")}
    return vector.TransformObservation(env, lambda observation: observation["rgb"], **spaces)


def steps(env, count=40, seed=1):
    """Return the results of ``reset`` and ``count`` random steps; all environments get the same actions."""
    yield env.reset(seed=0)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        returned = env.step(rng.choice(4, size=env.num_envs, p=[0.1, 0.5, 0.2, 0.2]))
        yield returned
        ended = returned[2] | returned[3]
        if env.metadata["autoreset_mode"] == DISABLED and ended.any():
            yield env.reset(options={"reset_mask": ended})


def flat(observation):
    """Flatten depth, goal and image of each environment into one row, sorted by name."""
    return np.concatenate([observation[name].reshape(3, -1) for name in sorted(observation)], axis=1)


# name: wrapper, the modes it works in, and what an observation must become

OBSERVATIONS = {
    "TransformObservation": (
        partial(vector.TransformObservation, func=lambda seen: {**seen, "depth": 1 - seen["depth"]}),
        NOT_SAME_STEP,
        lambda seen: {**seen, "depth": 1 - seen["depth"]},
    ),
    "VectorizeTransformObservation": (
        lambda env: vector.VectorizeTransformObservation(
            env,
            single.TransformObservation,
            func=lambda seen: seen["depth"].ravel(),
            observation_space=Box(0, 1, (192,), np.float32),
        ),
        NOT_SAME_STEP,
        lambda seen: seen["depth"].reshape(3, 192),
    ),
    "FilterObservation": (
        partial(vector.FilterObservation, filter_keys=["depth"]),
        NOT_SAME_STEP,
        lambda seen: {"depth": seen["depth"]},
    ),
    "FlattenObservation": (vector.FlattenObservation, NOT_SAME_STEP, flat),
    "ReshapeObservation": (
        lambda env: vector.ReshapeObservation(picture(env), (16 * 12, 3)),
        NOT_SAME_STEP,
        lambda seen: seen["rgb"].reshape(3, -1, 3),
    ),
    "DtypeObservation": (
        lambda env: vector.DtypeObservation(picture(env), np.float32),
        NOT_SAME_STEP,
        lambda seen: seen["rgb"].astype(np.float32),
    ),
    "GrayscaleObservation": (
        lambda env: vector.GrayscaleObservation(picture(env)),
        NOT_SAME_STEP,
        lambda seen: (seen["rgb"] * np.array([0.2125, 0.7154, 0.0721])).sum(axis=-1).astype(np.uint8),
    ),
    "RescaleObservation": (
        lambda env: vector.RescaleObservation(vector.DtypeObservation(picture(env), np.float32), 0.0, 1.0),
        NOT_SAME_STEP,
        lambda seen: seen["rgb"] / np.float32(255),
    ),
}


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observation_wrappers(name, mode, make):
    wrap, modes, expected = OBSERVATIONS[name]
    if mode not in modes:
        with pytest.raises((AssertionError, ValueError)):
            wrap(make(mode))
        return
    wrapped = wrap(make(mode))
    for (seen, *_), (plain, *_) in zip(steps(wrapped), steps(make(mode)), strict=True):
        assert wrapped.observation_space.contains(seen)
        outcome = expected(plain)
        for key in outcome if isinstance(outcome, dict) else [()]:
            np.testing.assert_allclose(seen[key], outcome[key], atol=1e-6)


REWARDS = {
    "TransformReward": (partial(vector.TransformReward, func=lambda reward: 2 * reward), lambda reward: 2 * reward),
    "VectorizeTransformReward": (
        lambda env: vector.VectorizeTransformReward(env, single.TransformReward, func=lambda reward: 2 * reward),
        lambda reward: 2 * reward,
    ),
    "ClipReward": (
        lambda env: vector.ClipReward(env, -0.1, 0.1),
        lambda reward: np.clip(reward, -0.1, 0.1),
    ),
    "NormalizeReward": (vector.NormalizeReward, None),
}


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("name", REWARDS)
def test_reward_wrappers(name, mode, make):
    wrap, expected = REWARDS[name]
    rewards, plain = (
        np.array([step[1] for step in steps(env) if len(step) == 5]) for env in (wrap(make(mode)), make(mode))
    )
    assert rewards.shape == plain.shape == (40, 3) and (plain != 0).any()
    if expected is not None:
        np.testing.assert_array_equal(rewards, expected(plain))
    else:  # divided by a positive number that follows their spread
        np.testing.assert_array_equal(np.sign(rewards), np.sign(plain))
        assert not np.allclose(rewards, plain)


def swap(actions):
    """Exchange LEFT and RIGHT."""
    return np.array([0, 1, 3, 2])[actions]


ACTIONS = {
    "TransformAction": partial(vector.TransformAction, func=swap),
    "VectorizeTransformAction": lambda env: vector.VectorizeTransformAction(
        env, single.TransformAction, func=swap, action_space=Discrete(4)
    ),
}


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("name", ACTIONS)
def test_action_wrappers(name, mode, make):
    plain = make(mode, max_episode_steps=50)
    wrapped = make(mode, max_episode_steps=50)
    swapped = ACTIONS[name](wrapped)
    plain.reset(seed=0), swapped.reset(seed=0)
    for actions in np.random.default_rng(0).integers(1, 4, (20, 3)):
        one = plain.step(swap(actions))
        two = swapped.step(actions)
        np.testing.assert_array_equal(one[0]["depth"], two[0]["depth"])
    np.testing.assert_array_equal(plain.agents.heading, wrapped.agents.heading)


# Refused by Gymnasium: the name, what is tried, and what to do instead (which the tables above do).

REFUSED = [
    ("GrayscaleObservation", vector.GrayscaleObservation, "takes one array: give it a picture"),
    ("ResizeObservation", partial(vector.ResizeObservation, shape=(6, 8)), "takes one array: set camera=Camera(...)"),
    ("ReshapeObservation", partial(vector.ReshapeObservation, shape=(4,)), "takes one array: give it a picture"),
    ("RescaleObservation", partial(vector.RescaleObservation, min_obs=0, max_obs=1), "takes one array"),
    ("DtypeObservation", partial(vector.DtypeObservation, dtype=np.float64), "takes one array"),
    ("NormalizeObservation", vector.NormalizeObservation, "takes one array: FlattenObservation first"),
    ("ClipAction", vector.ClipAction, "is for continuous actions; ours are discrete"),
    ("RescaleAction", partial(vector.RescaleAction, min_action=-1, max_action=1), "is for continuous actions"),
]


@pytest.mark.parametrize(("name", "wrap", "why"), REFUSED)
def test_what_cannot_work_is_refused(name, wrap, why, make):
    with pytest.raises((AssertionError, TypeError, ValueError)):
        wrap(make()).reset(seed=0)


def test_normalized_observations_are_of_the_flattened(make):
    wrapped = vector.NormalizeObservation(vector.FlattenObservation(make()))
    seen = np.array([step[0] for step in steps(wrapped, 100)])
    plain = np.array([flat(step[0]) for step in steps(make(), 100)])
    varied = plain.std(axis=(0, 1)) > 0.1
    assert varied.any()
    assert np.abs(seen[50:, :, varied].mean()) < 0.5 and 0.5 < seen[50:, :, varied].std() < 2
    for mode in (SAME_STEP, DISABLED):
        with pytest.raises((AssertionError, ValueError)):
            vector.NormalizeObservation(vector.FlattenObservation(make(mode)))


# What counts episodes


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_episode_statistics_equal_the_environments_record(mode, make):
    if mode == SAME_STEP and GYMNASIUM < (1, 4):
        pytest.skip("Gymnasium before 1.4 counts one step too few of each episode with SAME_STEP")
    env = make(mode, sensors=(), max_episode_steps=9)
    wrapped = vector.RecordEpisodeStatistics(env)
    wrapped.reset(seed=0)
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        actions = np.where(rng.random(3) < 0.1, 0, env.shortest_path_actions())
        length = env.episodes.num_steps + 1
        start = env.episodes.start_distance.copy()
        *_, terminated, truncated, info = wrapped.step(actions)
        ended = terminated | truncated
        assert ("episode" in info) == ended.any()
        if not ended.any():
            continue
        np.testing.assert_array_equal(info["_episode"], ended)
        own = info["final_info"] if mode == SAME_STEP else info
        np.testing.assert_array_equal(info["episode"]["l"][ended], length[ended])
        returns = start - own["distance_to_goal"] + 2.5 * own["success"] - 0.01 * length
        np.testing.assert_allclose(info["episode"]["r"][ended], returns[ended], atol=1e-3)
        found += ended.sum()
        if mode == DISABLED:
            wrapped.reset(options={"reset_mask": ended})
    assert found == wrapped.episode_count > 50


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_infos_as_a_list(mode, make):
    wrapped = vector.DictInfoToList(make(mode, sensors=()))
    for listed, plain in zip(steps(wrapped), steps(make(mode, sensors=())), strict=True):
        infos = listed[-1]
        info = plain[-1]
        for index, one in enumerate(infos):
            assert set(one) == {name for name in info if name[0] != "_" and info[f"_{name}"][index]}
            assert one["distance_to_goal"] == info["distance_to_goal"][index]
            if "final_info" in one:
                assert one["final_info"]["spl"] == info["final_info"]["spl"][index]
                goal = one["final_obs"]["pointgoal_with_gps_compass"]
                np.testing.assert_array_equal(goal, info["final_obs"]["pointgoal_with_gps_compass"][index])


# What needs another package


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_observations_as_torch_tensors(mode, make):
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")  # Gymnasium converts with it
    wrapped = vector.NumpyToTorch(make(mode))
    for converted, plain in zip(steps_in_torch(wrapped, torch), steps(make(mode)), strict=True):
        for name, value in plain[0].items():
            np.testing.assert_array_equal(converted[0][name].numpy(), value)
        np.testing.assert_array_equal(converted[-1]["path_length"].numpy(), plain[-1]["path_length"])
        if len(plain) == 5:
            np.testing.assert_allclose(converted[1].numpy(), plain[1], atol=1e-6)


def steps_in_torch(env, torch):
    """Do the same as ``steps``, with actions as tensors."""
    yield env.reset(seed=0)
    rng = np.random.default_rng(1)
    for _ in range(40):
        returned = env.step(torch.as_tensor(rng.choice(4, size=env.num_envs, p=[0.1, 0.5, 0.2, 0.2])))
        yield returned
        ended = (returned[2] | returned[3]).numpy()
        if env.metadata["autoreset_mode"] == DISABLED and ended.any():
            yield env.reset(options={"reset_mask": ended})


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_videos_are_recorded(mode, make, tmp_path):
    pytest.importorskip("moviepy")
    wrapped = vector.RecordVideo(
        make(mode, render_mode="rgb_array"), str(tmp_path / "clips"), episode_trigger=lambda episode: episode == 0
    )
    for _ in steps(wrapped):
        pass
    wrapped.close()
    assert [path.stat().st_size > 0 for path in (tmp_path / "clips").glob("*.mp4")] == [True]


def test_without_a_render_mode_videos_are_refused(make, tmp_path):
    pytest.importorskip("moviepy")
    with pytest.raises((AssertionError, ValueError)):
        vector.RecordVideo(make(), str(tmp_path))


def test_a_window_shows_the_batch(make, monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    wrapped = vector.HumanRendering(make(render_mode="rgb_array"))
    for _ in steps(wrapped, 3):
        pass
    assert wrapped.window is not None
    wrapped.close()


def test_pictures_are_resized(make):
    pytest.importorskip("cv2")
    wrapped = vector.ResizeObservation(picture(make()), (6, 8))
    for seen, *_ in steps(wrapped, 5):
        assert seen.shape == (3, 6, 8, 3) and wrapped.observation_space.contains(seen)


# Only these convert arrays of other libraries, which the batch neither takes nor gives.
OF_OTHER_ARRAYS = {"ArrayConversion", "JaxToNumpy", "JaxToTorch"}
WITH_TESTS = {"RecordEpisodeStatistics", "DictInfoToList", "NumpyToTorch", "RecordVideo", "HumanRendering"}


def test_every_wrapper_of_gymnasium_is_in_a_table():
    tables = {*OBSERVATIONS, *REWARDS, *ACTIONS, *(name for name, *_ in REFUSED), *WITH_TESTS, *OF_OTHER_ARRAYS}
    classes = {name for name in dir(vector) if isinstance(getattr(vector, name), type)}
    assert len(classes) > 15, "those that need another package are found by name only"
    assert classes | set(vector.__all__) == tables
