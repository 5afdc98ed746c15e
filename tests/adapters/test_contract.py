"""The contract of all adapters: what a library receives through one is what the batch does."""

import importlib
import sys

import gymnasium
import numpy as np
import pytest
from adapter_drivers import DRIVERS, GOAL
from libraries import require

from gym_batchnav.env.batch import BatchNavEnv

N = 5


@pytest.fixture(params=DRIVERS, ids=lambda one: one.library)
def driver(request):
    require(request.param.module)
    return request.param


@pytest.fixture
def make(driver, settings, opened):
    """Make a batch in the mode of the library, or another one."""

    def make(**keywords):
        return opened(BatchNavEnv(N, **{**settings, "autoreset_mode": driver.mode, **keywords}))

    return make


@pytest.mark.parametrize("actions", ["discrete", "velocity"])
def test_seeds_steps_ends_and_measures_are_those_of_the_batch(driver, make, actions):
    keywords = {} if actions == "discrete" else {"sensors": (), "actions": actions}
    twin = make(**keywords)
    rng = np.random.default_rng(0)
    ended = 0
    for seed in (3, 4):
        env = driver.adapt(make(**keywords), seed)
        assert driver.action_space(env) == twin.single_action_space
        first = driver.reset(env, seed)
        observation, _ = twin.reset(seed=driver.seed(seed, N))
        np.testing.assert_array_equal(first, observation[GOAL])
        for _ in range(40):
            given = rng.choice(4, N, p=[0.1, 0.5, 0.2, 0.2])
            if actions != "discrete":
                given = rng.uniform(-1, 1, (N, *twin.single_action_space.shape)).astype(np.float32)
            goals, reward, done, ends = driver.step(env, given)
            observation, true_reward, terminated, truncated, info = twin.step(given)
            np.testing.assert_array_equal(goals, observation[GOAL])
            np.testing.assert_allclose(reward, true_reward, atol=1e-6)
            np.testing.assert_array_equal(done, terminated | truncated)
            truth = driver.ends(truncated, terminated | truncated, info)
            assert ends.keys() == truth.keys()
            for index, (timed_out, success, spl) in ends.items():
                assert (timed_out, bool(success)) == truth[index][:2] and spl == pytest.approx(truth[index][2])
            ended += len(ends)
    assert ended > 20


def test_spaces_frames_and_the_end(driver, make):
    batch = make(render_mode="rgb_array", renderer="embree")
    env = driver.kind(batch)
    driver.reset(env, 0)
    frames = list(driver.frames(env))
    assert [frame.shape for frame in frames] == [(256, 256, 3)] * N
    np.testing.assert_array_equal(frames, batch.render())
    env.close()
    env.close()
    assert batch.closed
    blind = driver.kind(make(sensors=()))
    driver.reset(blind, 0)
    assert not [frame for frame in driver.frames(blind) or () if frame is not None]


def test_a_batch_of_another_kind_is_refused_with_the_remedy(driver, make):
    name = driver.kind.__name__
    for mode in {"next_step", "same_step", "disabled"} - {driver.mode}:
        message = rf"{driver.library} needs autoreset_mode='{driver.mode}', but this batch has '{mode}'"
        with pytest.raises(ValueError, match=rf"{message}: use {name}\.make\(num_envs=\.\.\.\) or gymnasium\.make_vec"):
            driver.kind(make(autoreset_mode=mode))
    mode = next(mode for mode in gymnasium.vector.AutoresetMode if mode.name.lower() != driver.mode)
    carts = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    with pytest.raises(ValueError, match=r"make_vec\('CartPole-v1', num_envs=\.\.\., autoreset_mode="):
        driver.kind(carts)
    with pytest.raises(ValueError, match=rf"{name} takes a batch, not a .*: use {name}\.make\(num_envs=\.\.\.\)"):
        driver.kind(gymnasium.make("CartPole-v1"))
    if driver.takes_numpy:
        batch = make()
        batch.cameras.device = "cuda"
        with pytest.raises(ValueError, match="obs_device='cpu'"):
            driver.kind(batch)
        batch.cameras.device = "cpu"


def test_a_batch_is_made_in_the_mode_of_the_library(driver, settings, opened):
    given = {**settings, "sensors": ()}
    env = opened(driver.kind.make(3, "BatchNav/PointNav-v0", **given))
    assert len(driver.reset(env, 0)) == 3
    with pytest.raises(ValueError, match=rf"\.make always .*'{driver.mode}': leave out autoreset_mode="):
        driver.kind.make(2, autoreset_mode="disabled")
    with pytest.raises(TypeError, match="no_such_keyword"):
        driver.kind.make(2, no_such_keyword=1, **given)


def test_a_missing_library_says_what_to_install(driver, monkeypatch):
    if not driver.extra:
        pytest.skip("it needs no library")
    module = f"gym_batchnav.adapters.{driver.adapter.partition('.')[0]}"
    importlib.import_module(module)
    monkeypatch.delitem(sys.modules, module)
    for name in [name for name in sys.modules if name.partition(".")[0] == driver.module]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=rf"gym-batchnav\[{driver.extra}\]"):
        importlib.import_module(module)
