"""tianshou's collectors count episodes as the environment itself does, and learn from true last observations."""

# ruff: noqa: E402
from libraries import require

require("tianshou")

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from ledger import LedgerEnv
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer

from gym_batchnav.adapters.tianshou import TianshouVecEnv
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes

N = 5
GOAL = "pointgoal_with_gps_compass"


@pytest.fixture
def ledger(settings, opened):
    return opened(LedgerEnv(N, autoreset_mode="same_step", **settings))


@pytest.fixture
def twin(settings, opened):
    """Return equal environments without tianshou."""
    return opened(BatchNavEnv(N, autoreset_mode="disabled", **settings))


class Actor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(66, 4)

    def forward(self, obs, state=None, info=None):
        depth = torch.as_tensor(obs.depth).flatten(1)
        goal = torch.as_tensor(obs[GOAL])
        return self.layer(torch.cat([depth, goal], 1)) - torch.tensor([2.0, 0, 0, 0]), state


class Distance(torch.nn.Module):
    """A critic with known values: the distance to the goal."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, obs):
        return self.scale * torch.as_tensor(obs[GOAL][:, :1])


def make_ppo(env, **keywords):
    policy = DiscreteActorPolicy(actor=Actor(), action_space=env.action_space[0])
    return PPO(policy=policy, critic=Distance(), optim=AdamOptimizerFactory(lr=1e-3), **keywords)


def collector_of(env, ppo, size=400):
    """Return a collector, and the list to which it appends the return and the rows of every episode."""
    notes = []

    @dataclass(kw_only=True)
    class Noted(CollectStats):
        def update_at_episode_done(self, episode_batch, episode_return, refresh_sequence_stats=False):
            notes.append((episode_return, episode_batch))
            super().update_at_episode_done(episode_batch, episode_return, refresh_sequence_stats)

    collector = Collector(ppo, env, VectorReplayBuffer(size * N, N), collect_stats_class=Noted)
    return collector, notes


def test_episodes_are_counted_right_and_none_is_run_that_tianshou_does_not_know_of(ledger):
    env = TianshouVecEnv(ledger)
    collector, notes = collector_of(env, make_ppo(env))
    collector.reset(gym_reset_kwargs={"seed": 0})
    for _ in range(3):
        stats = collector.collect(n_episode=4 * N + 3)  # towards the end, fewer and fewer environments are stepped
        assert stats.n_collected_episodes == 4 * N + 3
    assert {one.truncated for one in ledger.ended} == {True, False} == {one.success for one in ledger.ended}
    for (total, rows), one in zip(notes, ledger.ended, strict=True):
        assert total == pytest.approx(one.reward, abs=1e-6)
        assert (rows.terminated[-1], rows.truncated[-1]) == (one.terminated, one.truncated)
        last = rows.info[-1]
        assert (last.env_id, last.episode_index, last.success) == (one.env, one.episode, one.success)
        assert last.spl == pytest.approx(one.spl)
        assert len(rows) == one.length and not rows.done[:-1].any()


def test_observations_rewards_and_ends_are_those_of_the_environment(ledger, twin):
    env = TianshouVecEnv(ledger)
    ppo = make_ppo(env, gae_lambda=0.0, gamma=0.5)
    collector, _ = collector_of(env, ppo)
    collector.reset(gym_reset_kwargs={"seed": 7})
    collector.collect(n_step=60 * N)
    rows, indices = collector.buffer.sample(0)
    targets = ppo._add_returns_and_advantages(rows, collector.buffer, indices).returns.reshape(N, 60).T
    now, _ = twin.reset(seed=7)
    truncations = 0
    for step in range(60):
        row = collector.buffer[np.arange(N) * 400 + step]
        then, reward, terminated, truncated, _ = twin.step(row.act)
        for sensor in ("depth", GOAL):
            np.testing.assert_array_equal(row.obs[sensor], now[sensor])
            np.testing.assert_array_equal(row.obs_next[sensor], then[sensor])
        np.testing.assert_allclose(row.rew, reward)
        np.testing.assert_array_equal(row.terminated, terminated)
        np.testing.assert_array_equal(row.truncated, truncated)
        # At a time-out the value is that of where the agent stands, not of where the next episode begins.
        np.testing.assert_allclose(targets[step], reward + 0.5 * then[GOAL][:, 0] * ~terminated, rtol=1e-5)
        ended = terminated | truncated
        truncations += truncated.sum()
        now = twin.reset(options={"reset_mask": ended})[0] if ended.any() else then
    assert truncations > 5


def test_environments_that_are_not_stepped_stand_still(ledger, twin):
    env = TianshouVecEnv(ledger)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=3)
    seen = [[observation.depth[index]] for index in range(N)]
    acted = [[] for _ in range(N)]
    rewards = [[] for _ in range(N)]
    waiting = np.zeros(N, bool)
    for _ in range(60):
        ready = np.nonzero(~waiting)[0]
        ids = rng.permutation(ready)[: rng.integers(1, len(ready) + 1)] if len(ready) else ready
        if len(ids):
            actions = rng.choice(4, len(ids), p=[0.1, 0.5, 0.2, 0.2])
            observation, reward, terminated, truncated, infos = env.step(actions, ids)
            assert [info["env_id"] for info in infos] == ids.tolist()
            for row, index in enumerate(ids):
                acted[index].append(actions[row]), rewards[index].append(reward[row])
                seen[index].append(observation.depth[row])
            waiting[ids] = terminated | truncated
        begin = np.nonzero(waiting & (rng.random(N) < 0.5))[0]
        if len(begin):
            observation, _ = env.reset(begin)
            for row, index in enumerate(begin):
                seen[index].append(observation.depth[row])
            waiting[begin] = False
    # Each environment has done what it would have done on its own.
    for index in range(N):
        observation, _ = twin.reset(seed=3)
        expected = []
        pictures = [observation["depth"][index]]
        for action in acted[index]:
            observation, reward, terminated, truncated, _ = twin.step(np.full(N, action))
            expected.append(reward[index])
            pictures.append(observation["depth"][index])
            ended = terminated | truncated
            if ended.any():
                observation, _ = twin.reset(options={"reset_mask": ended})
                pictures += [observation["depth"][index]] * int(ended[index])
        np.testing.assert_allclose(rewards[index], expected, atol=1e-5)
        np.testing.assert_array_equal(seen[index], pictures[: len(seen[index])])


def test_an_episode_that_has_ended_is_reset_without_another_one_beginning(ledger):
    env = TianshouVecEnv(ledger)
    env.reset(seed=0)
    _, _, terminated, _, _ = env.step(np.zeros(N, int))
    begun = ledger.episodes.count.copy()
    assert terminated.all()
    env.reset([1, 3])
    env.reset()
    np.testing.assert_array_equal(ledger.episodes.count, begun + np.array([0, 1, 0, 1, 0]))


def test_seeds_are_those_of_the_batch(ledger, twin):
    env = TianshouVecEnv(ledger)
    assert env.seed(11) == env.seed(np.int64(11)) == [[11 + index] for index in range(N)]
    env.seed([11 + index for index in range(N)])
    _, seeded = twin.reset(seed=11)
    observation, infos = env.reset([2, 4], seed=11)
    assert [info["episode_index"] for info in infos] == seeded["episode_index"][[2, 4]].tolist()
    assert observation.depth.shape == (2, 8, 8, 1)
    with pytest.raises(ValueError, match="share it; leave out id="):
        env.set_env_attr("render_mode", None, id=[0])


def test_episodes_that_run_once_are_refused_with_the_remedy(settings):
    with pytest.raises(ValueError, match=r"Episodes\(order='random'\)"):
        TianshouVecEnv(BatchNavEnv(N, autoreset_mode="same_step", **{**settings, "episodes": Episodes(order="once")}))
