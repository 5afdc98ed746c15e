"""Agents of a world that share a policy of Stable-Baselines3: episodes, and steps that are left out."""

# ruff: noqa: E402
from libraries import require

require("stable_baselines3")

from copy import deepcopy

import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from ledger import LedgerEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

from gym_batchnav.adapters.sb3 import SB3VecEnv
from gym_batchnav.adapters.sb3_worlds import WorldDictRolloutBuffer
from gym_batchnav.env.ids import make_batch
from gym_batchnav.task.meeting import Tag
from gym_batchnav.worlds.selfplay import SelfPlay

M = 3
N = 2 * M
LIMIT = 12


@pytest.fixture
def make(library, opened):
    """Make a batch of two worlds of blind agents."""

    def make(**keywords):
        given = {"library": library, "sensors": (), "agents_per_world": M, "episodes": 30}
        given |= {"max_episode_steps": LIMIT, "autoreset_mode": "same_step"}
        return SB3VecEnv(opened(LedgerEnv(N, **{**given, **keywords})))

    return make


def steps(env, count=200, seed=1):
    """Take random steps."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield env.step(rng.choice(4, size=N, p=[0.08, 0.52, 0.2, 0.2]))


def test_episodes_of_a_world_are_counted_right(make):
    inner = make()
    env = VecMonitor(inner)
    env.reset()
    worlds = inner.batch.worlds
    counted = []
    waited = np.zeros(N, int)
    kept = {"waited": 0, "timed_out": 0}
    waiting = worlds.waiting()
    last = None
    for observation, reward, done, infos in steps(env):
        assert (reward[waiting] == 0).all()
        assert (done.reshape(-1, M) == done.reshape(-1, M)[:, :1]).all()
        waited += waiting
        for index in np.nonzero(done)[0]:
            info = infos[index]
            counted.append((index, info["episode"]["l"], info["TimeLimit.truncated"], info["is_success"]))
            assert info["episode"]["r"] == pytest.approx(inner.batch.ended[len(counted) - 1].reward, abs=1e-5)
            if waiting[index]:  # who waits stays, and its last observation is that of its own end
                assert not info["TimeLimit.truncated"]
                goal = info["terminal_observation"]["pointgoal_with_gps_compass"]
                np.testing.assert_array_equal(goal, last["pointgoal_with_gps_compass"][index])
            kept["waited"] += waited[index]
            kept["timed_out"] += info["TimeLimit.truncated"]
            waited[index] = 0
        last = observation
        waiting = worlds.waiting()
    truth = [(one.env, one.length, one.truncated, one.success) for one in inner.batch.ended]
    assert counted == truth and len(truth) > 60
    assert kept["waited"] > 50 and 5 < kept["timed_out"] < len(truth) - 20


def test_waiting_is_in_the_infos_on_request(make):
    inner = make()
    env = SB3VecEnv(inner.env, step_infos=True)
    env.reset()
    for _, _, _, infos in steps(env, 30):
        found = [info["waiting"] if "terminal_observation" not in info else None for info in infos]
        assert all(one in (None, now) for one, now in zip(found, inner.batch.worlds.waiting(), strict=True))


def ppo_of(env, **keywords):
    """Return PPO with the buffer that leaves out the steps of those who wait."""
    return PPO(
        "MultiInputPolicy", env, n_epochs=1, seed=0, rollout_buffer_class=WorldDictRolloutBuffer,
        rollout_buffer_kwargs={"env": env}, **keywords,
    )  # fmt: skip


def note_waiting(worlds, owner, name):
    """Return a list of who waits, to which a method adds from now on."""
    waiting = [worlds.waiting()]
    step = getattr(owner, name)

    def spy(*arguments):
        result = step(*arguments)
        waiting.append(worlds.waiting())
        return result

    setattr(owner, name, spy)
    return waiting


class Kept(BaseCallback):
    """Copies of every rollout before SB3 learns from it."""

    def __init__(self):
        super().__init__()
        self.rollouts = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        names = ("rewards", "values", "advantages", "acted")
        self.rollouts.append({name: getattr(self.model.rollout_buffer, name).copy() for name in names})


def test_steps_of_those_who_wait_are_left_out(make):
    env = make()
    model = ppo_of(env, n_steps=40, batch_size=16, gae_lambda=0.0)
    kept = Kept()
    samples = []
    own = model.rollout_buffer._get_samples

    def noted(rows, *arguments):
        samples.append(rows)
        return own(rows, *arguments)

    waiting = note_waiting(env.batch.worlds, env, "step_wait")
    model.rollout_buffer._get_samples = noted
    model.learn(40 * N, callback=kept)
    (rollout,) = kept.rollouts
    acted = ~np.array(waiting[-41:-1])
    np.testing.assert_array_equal(rollout["acted"], acted)
    assert 20 < (~acted).sum() < acted.size - 20
    used = np.concatenate(samples[1:])  # the first only lays out the rows
    np.testing.assert_array_equal(np.sort(used), np.flatnonzero(acted.T))
    # With lambda 0 an advantage is reward + gamma V' - V, without V' at the agent's own end.
    ended = ~acted[1:] & acted[:-1]
    wanted = rollout["rewards"] - rollout["values"]
    assert ended.sum() > 5
    np.testing.assert_allclose(rollout["advantages"][:-1][ended], wanted[:-1][ended], rtol=1e-5)


def test_learners_of_self_play_keep_the_steps_in_which_they_acted(library, opened):
    given = {"library": library, "sensors": (), "episodes": 30, "max_episode_steps": LIMIT}
    batch = opened(
        make_batch("Tag", N, task=Tag(M, num_runners=2, catch_distance=1.0), autoreset_mode="same_step", **given)
    )
    play = SelfPlay(batch, [True, True, False], [lambda seen: np.ones(len(seen["players"]), int)])
    env = SB3VecEnv(RecordEpisodeStatistics(play))
    model = ppo_of(env, n_steps=120, batch_size=60)
    waiting = note_waiting(batch.worlds, play, "step")
    model.learn(120 * env.num_envs)
    learns = np.tile([True, True, False], N // M)
    acted = model.rollout_buffer.acted
    np.testing.assert_array_equal(acted, ~np.array(waiting)[:-1, learns])
    assert acted.shape == (120, env.num_envs) and 0 < (~acted).sum() < acted.size / 2


def test_other_environments_are_refused(make):
    env = make(agents_per_world=1)
    with pytest.raises(ValueError, match="pass env=, an SB3VecEnv made with agents_per_world="):
        ppo_of(env)
    with pytest.raises(ValueError, match="pass env=, an SB3VecEnv made with agents_per_world="):
        PPO("MultiInputPolicy", env, rollout_buffer_class=WorldDictRolloutBuffer)


def test_models_are_saved_without_their_environment_and_go_on_with_another(make, tmp_path):
    env = make()
    model = ppo_of(env, n_steps=8, batch_size=8)
    model.learn(8 * env.num_envs)
    model.save(tmp_path / "model")
    with pytest.raises(TypeError, match="cannot be copied"):
        deepcopy(env)
    seen = env.reset()
    np.testing.assert_array_equal(
        PPO.load(tmp_path / "model").predict(seen, deterministic=True)[0], model.predict(seen, deterministic=True)[0]
    )
    PPO.load(tmp_path / "model", env, rollout_buffer_kwargs={"env": env}).learn(8 * env.num_envs)
    with pytest.raises(ValueError, match=r"no environment.*to load.*pass env="):
        PPO.load(tmp_path / "model", env).learn(8 * env.num_envs)
