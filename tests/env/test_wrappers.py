"""Gymnasium's vector wrappers around the batch: a table of those that work, and what needs a closer look."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector
from libraries import GYMNASIUM

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode
EVERY_MODE = (NEXT_STEP, SAME_STEP, DISABLED)


@pytest.fixture
def make(library, opened):
    def make(mode=NEXT_STEP, **keywords):
        keywords = {"sensors": ("depth", "rgb"), "camera": Camera(width=16, height=12), "episodes": 50, **keywords}
        return opened(BatchNavEnv(3, library=library, autoreset_mode=mode, **keywords))

    return make


def picture(env):
    """Return the batch with ``rgb`` as its only observation, for wrappers that take one array."""
    spaces = {name: getattr(env, name)["rgb"] for name in ("observation_space", "single_observation_space")}
    return vector.TransformObservation(env, lambda observation: observation["rgb"], **spaces)


def steps(env, count=40, convert=np.asarray):
    """Return the results of ``reset`` and ``count`` random steps; all environments get the same actions."""
    yield env.reset(seed=0)
    rng = np.random.default_rng(1)
    for _ in range(count):
        returned = env.step(convert(rng.choice(4, size=env.num_envs, p=[0.1, 0.5, 0.2, 0.2])))
        yield returned
        ended = np.asarray(returned[2] | returned[3])
        if env.metadata["autoreset_mode"] == DISABLED and ended.any():
            yield env.reset(options={"reset_mask": ended})


def flat(observation):
    """Flatten depth, goal and image of each environment into one row, sorted by name."""
    return np.concatenate([observation[name].reshape(3, -1) for name in sorted(observation)], axis=1)


SHOWN = {  # wrapper, and what an observation must become; they refuse SAME_STEP, whose final_obs they do not transform
    "FlattenObservation": (vector.FlattenObservation, flat),
    "RescaleObservation": (
        lambda env: vector.RescaleObservation(vector.DtypeObservation(picture(env), np.float32), 0.0, 1.0),
        lambda seen: seen["rgb"] / np.float32(255),
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_observation_wrappers(name, make):
    wrap, expected = SHOWN[name]
    for mode in (NEXT_STEP, DISABLED):
        wrapped = wrap(make(mode))
        for (seen, *_), (plain, *_) in zip(steps(wrapped), steps(make(mode)), strict=True):
            assert wrapped.observation_space.contains(seen)
            np.testing.assert_allclose(seen, expected(plain), atol=1e-6)
    with pytest.raises((AssertionError, ValueError)):
        wrap(make(SAME_STEP))


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
        info = plain[-1]
        for index, one in enumerate(listed[-1]):
            assert set(one) == {name for name in info if name[0] != "_" and info[f"_{name}"][index]}
            assert one["distance_to_goal"] == info["distance_to_goal"][index]
            if "final_info" in one:
                assert one["final_info"]["spl"] == info["final_info"]["spl"][index]
                goal = one["final_obs"]["pointgoal_with_gps_compass"]
                np.testing.assert_array_equal(goal, info["final_obs"]["pointgoal_with_gps_compass"][index])


def test_observations_as_torch_tensors(make):
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")  # Gymnasium converts with it
    wrapped = vector.NumpyToTorch(make(SAME_STEP))
    for converted, plain in zip(steps(wrapped, convert=torch.as_tensor), steps(make(SAME_STEP)), strict=True):
        for name, value in plain[0].items():
            np.testing.assert_array_equal(converted[0][name].numpy(), value)
        np.testing.assert_array_equal(converted[-1]["path_length"].numpy(), plain[-1]["path_length"])
        if len(plain) == 5:
            np.testing.assert_allclose(converted[1].numpy(), plain[1], atol=1e-6)


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_videos_are_recorded(mode, make, tmp_path):
    pytest.importorskip("moviepy")
    env = make(mode, render_mode="rgb_array", max_episode_steps=6)
    wrapped = vector.RecordVideo(env, str(tmp_path), episode_trigger=lambda episode: episode == 0)
    assert len(list(steps(wrapped, 9))) > 9
    wrapped.close()
    assert [path.stat().st_size > 0 for path in tmp_path.glob("*.mp4")] == [True]


def test_a_window_shows_the_batch(make, monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    wrapped = vector.HumanRendering(make(render_mode="rgb_array"))
    assert len(list(steps(wrapped, 3))) == 4 and wrapped.window is not None
    wrapped.close()
