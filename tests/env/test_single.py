import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from rooms import box_room

import gym_batchnav  # noqa: F401 - registers the environments
from gym_batchnav.env.config import Episodes
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.scene.save import save_glb
from gym_batchnav.task.pointnav import PointNav


@pytest.fixture(scope="module")
def keywords(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    save_glb(box_room(), folder / "room.glb")
    return {"scenes": str(folder / "room.glb"), "episodes": 20, "renderer": "embree"}


@pytest.mark.filterwarnings("error")
def test_gymnasiums_checker_is_content(keywords):
    sensors = ("depth", "rgb", "semantic")
    env = gymnasium.make("BatchNav/PointNav-v0", sensors=sensors, render_mode="rgb_array", **keywords).unwrapped
    check_env(env)
    env.close()
    env.close()
    assert env.batch.closed


@pytest.mark.parametrize(("name", "limit"), [("BatchNav/PointNav-v0", None), ("BatchNav/PointNavScan-v0", 7)])
def test_gymnasiums_limit_is_the_limit_and_the_last_step_reports_the_measures(keywords, name, limit):
    given = {"sensors": ()} if limit is None else {"max_episode_steps": limit}
    env = gymnasium.make(name, **given, **keywords)
    env.reset(seed=0)
    for step in range(1, (limit or 500) + 1):
        *_, terminated, truncated, info = env.step(2)
        assert not terminated and truncated == (step == (limit or 500))
    assert info["success"] == 0 and info["spl"] == 0 and 0 <= info["soft_spl"] < 1
    env.reset()
    assert env.step(0)[2]
    env.close()


@pytest.mark.parametrize(("mode", "limit"), [("vector_entry_point", None), ("vector_entry_point", 7), ("sync", 7)])
def test_it_is_the_limit_of_batches_too(keywords, mode, limit):
    given = {} if limit is None else {"max_episode_steps": limit}
    envs = gymnasium.make_vec("BatchNav/PointNav-v0", 2, vectorization_mode=mode, sensors=(), **given, **keywords)
    envs.reset(seed=0)
    for step in range(1, (limit or 500) + 1):
        truncated, info = envs.step(np.full(2, 2))[3:]
        assert truncated.tolist() == [step == (limit or 500)] * 2
    assert info["success"].tolist() == [0, 0] and info["_spl"].all()
    envs.close()


def test_when_every_episode_has_run_once_reset_says_so(keywords):
    env = SingleEnv(**{**keywords, "episodes": Episodes(order="once", count=20)})
    for _ in range(20):
        env.reset()
        assert env.step(0)[2]
    with pytest.raises(RuntimeError, match="once"):
        env.reset()
    env.reset(options={"episode_order": "once"})
    env.close()


def test_infos_are_scalars_of_what_is_present_and_what_does_not_fit_is_refused_by_name(keywords):
    env = SingleEnv(**keywords)
    _, info = env.reset(seed=0, options={"episode_index": 7})
    assert "success" not in info and np.isscalar(info["distance_to_goal"].item()) and info["episode_index"] == 7
    env.step(np.array([1]))
    with pytest.raises(ValueError, match=r"actions are int64 \(1, 2\): pass integers \(1,\)"):
        env.step([1, 2])
    with pytest.raises(ValueError, match="options='x': pass a dict"):
        env.reset(options="x")
    info = env.step(0)[4]
    assert info["success"] in (True, False) and info["spl"] <= 1
    env.close()


def test_batch_keywords_are_refused(keywords):
    with pytest.raises(ValueError, match="make_vec"):
        SingleEnv(num_envs=4, **keywords)


@pytest.mark.parametrize("limit", [None, 500])
def test_an_id_of_ones_own_ends_its_episodes(keywords, limit):
    """Without a limit of the id, Gymnasium adds none, and that of the batch counts."""
    entry = "gym_batchnav.env.single:SingleEnv"
    gymnasium.register("Mine-v0", entry_point=entry, max_episode_steps=limit, kwargs={"task": PointNav()})
    try:
        env = gymnasium.make("Mine-v0", sensors=(), **keywords)
    finally:
        del gymnasium.registry["Mine-v0"]
    env.reset(seed=0)
    assert [env.step(2)[3] for _ in range(500)] == [False] * 499 + [True]
    if limit is None:
        with pytest.raises(RuntimeError, match="reset"):
            env.step(2)
    env.close()
