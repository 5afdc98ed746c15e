"""rl_games' own counts, its experience buffer and its bootstrapping against the environment's own record."""

# ruff: noqa: E402
import re

from libraries import require

require("rl_games")

import numpy as np
import pytest
import torch
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.network_builder import NetworkBuilder
from rl_games.common.algo_observer import AlgoObserver
from rl_games.torch_runner import Runner

from gym_batchnav.adapters.rl_games import RLGamesVecEnv, register
from gym_batchnav.env.flat import ScanObservation
from gym_batchnav.geometry import Camera

N = 6
LIMIT = 9
HORIZON = 32
EPOCHS = 4
GAMMA = 0.9


class Counter(AlgoObserver):
    """Records every episode as rl_games counts it: environment, length, return, SPL."""

    def after_init(self, algo):
        self.algo = algo
        self.episodes = []

    def process_infos(self, infos, done_indices):
        spl = infos["final_info"].get("spl", np.full(N, np.nan))
        for index in done_indices[:, 0].tolist():
            length = self.algo.current_lengths[index].item()
            total = self.algo.current_rewards[index].item()
            self.episodes.append((index, length, total, spl[index]))


class Glimpse(torch.nn.Module):
    """A small network for Dict observations, in the form that rl_games requires."""

    def __init__(self, actions_num, input_shape, **_):
        super().__init__()
        size = sum(int(np.prod(shape)) for shape in input_shape.values())
        self.body, self.policy = torch.nn.Linear(size, 16), torch.nn.Linear(16, actions_num)
        self.value = torch.nn.Linear(16, 1)

    def is_rnn(self):
        return False

    def get_aux_loss(self):
        return None

    def is_separate_critic(self):
        return False

    def get_value_layer(self):
        return self.value

    def forward(self, inputs):
        seen = torch.cat([part.flatten(1) for part in inputs["obs"].values()], dim=1)
        hidden = torch.tanh(self.body(seen))
        return self.policy(hidden), self.value(hidden), None


class GlimpseBuilder(NetworkBuilder):
    def load(self, params):
        pass

    def build(self, name, **keywords):
        return Glimpse(**keywords)


def runner_of(env, folder, network="actor_critic", **config):
    """Return a Runner for a registered batch, and its observer."""
    register(RLGamesVecEnv(env), "boxes")
    network = {
        "name": network, "separate": False, "space": {"discrete": {}},
        "mlp": {"units": [16], "activation": "elu", "initializer": {"name": "default"}},
    }  # fmt: skip
    config = {
        "name": "test", "env_name": "boxes", "env_config": {}, "num_actors": N, "train_dir": str(folder),
        "device": "cpu", "device_name": "cpu", "torch_compile": False,
        "print_stats": False, "games_to_track": 10**6, "max_epochs": EPOCHS,
        "horizon_length": HORIZON, "minibatch_size": N * HORIZON // 2, "mini_epochs": 2, "learning_rate": 1e-3,
        "lr_schedule": None, "gamma": GAMMA, "tau": 0.9, "e_clip": 0.2, "clip_value": False, "critic_coef": 1.0,
        "entropy_coef": 0.0, "grad_norm": 1.0, "normalize_advantage": True, "normalize_input": False,
        "value_bootstrap": True, "reward_shaper": {}, **config,
    }  # fmt: skip
    params = {"seed": 3, "algo": {"name": "a2c_discrete"}, "model": {"name": "discrete_a2c"}, "torch_threads": 1}
    observer = Counter()
    runner = Runner(observer)
    runner.load({"params": {**params, "network": network, "config": config}})
    return runner, observer


def train(env, folder, **config):
    """Train a few epochs; return the agent and all episodes."""
    runner, observer = runner_of(env, folder, **config)
    runner.run({"train": True})
    return observer.algo, observer.episodes


def check_counts(algo, episodes, ledger):
    assert [(index, length) for index, length, _, _ in episodes] == [(one.env, one.length) for one in ledger]
    truth = [(one.reward, one.spl) for one in ledger]
    np.testing.assert_allclose([counted for _, _, *counted in episodes], truth, atol=1e-5)
    assert algo.game_lengths.current_size == len(ledger)
    np.testing.assert_allclose(algo.game_lengths.get_mean(), np.mean([one.length for one in ledger]), rtol=1e-5)
    np.testing.assert_allclose(algo.game_rewards.get_mean()[0], np.mean([one.reward for one in ledger]), atol=1e-5)


def test_episodes_are_counted_as_they_were_and_only_time_outs_are_bootstrapped(record, tmp_path):
    env = record()
    algo, episodes = train(ScanObservation(env), tmp_path)
    assert sum(one.truncated for one in env.ended) > 10 and sum(one.terminated for one in env.ended) > 10
    check_counts(algo, episodes, env.ended)
    expected, _ = record().reset(seed=3)  # the seed of the runner is that of the batch
    for name, values in expected.items():
        np.testing.assert_array_equal(env.first[name], values)
    held = {name: values[..., 0] for name, values in algo.experience_buffer.tensor_dict.items() if values.ndim == 3}
    _, reward, terminated, truncated, _ = (np.array(column) for column in zip(*env.steps[-HORIZON:], strict=True))
    timed_out = truncated & ~terminated
    assert timed_out.any() and terminated.any()
    # rl_games takes the value of the observation that was acted upon last.
    expected = reward + GAMMA * held["values"].numpy() * timed_out
    np.testing.assert_allclose(held["rewards"].numpy(), expected, atol=1e-5)
    done = algo.experience_buffer.tensor_dict["dones"].numpy().astype(bool)
    np.testing.assert_array_equal(done[1:], (terminated | truncated)[:-1])


@pytest.mark.parametrize("count", [1, N])
def test_games_that_are_played_are_counted_as_they_were(record, tmp_path, capsys, count):
    env = record(count)
    player = {"games_num": 20, "deterministic": False}
    runner, _ = runner_of(ScanObservation(env), tmp_path, player=player, num_actors=count)
    runner.run({"train": False, "play": True})
    # rl_games prints means over what ended in the same step: "reward: -0.09 steps: 9.0".
    printed = re.findall(r"^reward: (\S+) steps: (\S+)$", capsys.readouterr().out, re.MULTILINE)
    counts = [np.sum(terminated | truncated) for _, _, terminated, truncated, _ in env.steps]
    ends = np.split(np.array([(one.reward, one.length) for one in env.ended]), np.cumsum([n for n in counts if n])[:-1])
    assert len(env.ended) >= 20
    np.testing.assert_allclose(np.array(printed, float), [end.mean(axis=0) for end in ends], atol=0.051)


def test_pictures_arrive_as_a_dict_without_a_copy(record):
    env = RLGamesVecEnv(record(camera=Camera(16, 12)))
    env.seed(5)
    first = env.reset()["obs"]
    observation, reward, done, infos = env.step(torch.full((N,), 1))
    returned, rewards, *_ = env.env.steps[-1]
    assert observation["obs"]["depth"].shape == (N, 12, 16, 1) and reward.dtype == torch.float32
    assert observation["obs"]["depth"].data_ptr() == returned["depth"].ctypes.data
    np.testing.assert_allclose(reward.numpy(), rewards, atol=1e-6)
    assert not done.any() and not infos["time_outs"].any() and infos["final_info"] == {}
    env.seed(5)
    torch.testing.assert_close(env.reset()["obs"], first)


def test_a_network_of_ones_own_learns_from_the_dict(record, tmp_path):
    model_builder.register_network("glimpse", GlimpseBuilder)
    env = record(camera=Camera(16, 12))
    algo, episodes = train(env, tmp_path, network="glimpse", max_epochs=2)
    check_counts(algo, episodes, env.ended)


def test_another_number_of_actors_is_refused_with_the_remedy(record, tmp_path):
    with pytest.raises(ValueError, match=r"num_actors=7, but 'boxes' has 6 environments: set num_actors=6"):
        train(ScanObservation(record()), tmp_path, num_actors=7, minibatch_size=7 * HORIZON)
