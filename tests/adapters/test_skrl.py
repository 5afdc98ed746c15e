"""skrl's memory, its TensorBoard statistics and its bootstrapping against the environment's own record."""

# ruff: noqa: E402
from libraries import require

require("skrl")

import numpy as np
import pytest
import torch
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer

from gym_batchnav.adapters.skrl import FinalObservations, SkrlEnv
from gym_batchnav.env.flat import SCAN_CAMERA, ScanObservation

N = 6
ROLLOUT = 32
STEPS = 128
DISCOUNT = 0.9
GOAL = "pointgoal_with_gps_compass"


class Guess(CategoricalMixin, Model):
    """A policy with constant, learned action probabilities, which rarely stops at first."""

    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        CategoricalMixin.__init__(self)
        self.logits = torch.nn.Parameter(torch.tensor([-1.0, 1.0, 0.0, 0.0]))

    def compute(self, inputs, role):
        return self.logits.expand(len(inputs["observations"]), -1), {}


class Distance(DeterministicMixin, Model):
    """A critic that returns the distance to the goal, the second-last number of an observation."""

    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        DeterministicMixin.__init__(self)
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def compute(self, inputs, role):
        return inputs["observations"][:, -2:-1] + 0 * self.nothing, {}


class Whim(DeterministicMixin, Model):
    """Random Q-values that prefer moves to STOP."""

    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        DeterministicMixin.__init__(self)
        self.odds = torch.nn.Parameter(torch.tensor([0.6, 1.0, 1.0, 1.0]))

    def compute(self, inputs, role):
        return torch.rand(len(inputs["observations"]), 4) * self.odds, {}


class Adapted(FinalObservations, PPO):
    """An agent that records its memory at each update."""

    def update(self, **keywords):
        super().update(**keywords)
        names = ("rewards", "terminated", "truncated", "returns")
        held = {name: self.memory.get_tensor_by_name(name).clone().numpy()[..., 0] for name in names}
        self.snapshots = [*getattr(self, "snapshots", []), held]


def agent_of(env, folder, **keywords):
    """Make an agent that writes its statistics at each step."""
    experiment = {"directory": str(folder), "experiment_name": "run", "write_interval": 1, "checkpoint_interval": 0}
    settings = {"rollouts": ROLLOUT, "discount_factor": DISCOUNT, "time_limit_bootstrap": True, **keywords}
    return Adapted(
        models={"policy": Guess(env), "value": Distance(env)},
        memory=RandomMemory(memory_size=ROLLOUT, num_envs=env.num_envs, device="cpu"),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=PPO_CFG(experiment=experiment, **settings),
    )


def train(agent, env, timesteps=STEPS):
    cfg = {"timesteps": timesteps, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(cfg=cfg, env=env, agents=agent).train()


def episodes(agent):
    """Return the episodes in the memory: environment, length, terminated, truncated, sum of rewards, last distance."""
    held = {name: np.concatenate([shot[name] for shot in agent.snapshots]) for name in agent.snapshots[0]}
    found = []
    begun = np.zeros(held["rewards"].shape[1], int)
    for step, env in np.argwhere(held["terminated"] | held["truncated"]):
        rewards = held["rewards"][begun[env] : step + 1, env]
        flags = bool(held["terminated"][step, env]), bool(held["truncated"][step, env])
        found.append((int(env), len(rewards), *flags, float(rewards.sum(dtype=np.float64))))
        begun[env] = step + 1
    return found, held


def ends(batch):
    """Yield the step at which each episode ended, counted from 1, the episode, and the last distance to the goal."""
    ended = iter(batch.ended)
    for step, (observation, _, terminated, truncated, info) in enumerate(batch.steps, 1):
        final = info.get("final_obs", observation)[GOAL]
        for index in np.nonzero(terminated | truncated)[0]:
            yield step, next(ended), final[index, 0]


def test_episodes_and_time_outs_are_counted_and_bootstrapped_right(record, tmp_path):
    batch = record()
    env = SkrlEnv(batch)
    agent = agent_of(env, tmp_path)
    train(agent, env)
    found, held = episodes(agent)
    truth = []
    for _, ended, distance in ends(batch):
        bootstrap = DISCOUNT * float(distance) if ended.truncated else 0.0  # skrl adds it to the reward
        truth.append((ended.env, ended.length, ended.terminated, ended.truncated, ended.reward + bootstrap))
    assert [row[:4] for row in found] == [row[:4] for row in truth]
    np.testing.assert_allclose([row[4] for row in found], [row[4] for row in truth], atol=1e-5)
    time_outs = sum(row[3] for row in truth)
    stops = sum(row[2] for row in truth)
    assert time_outs > 10 and stops > 10, (time_outs, stops)
    # Nothing of the next episode is in the return of an episode's last step.
    last = held["terminated"] | held["truncated"]
    np.testing.assert_allclose(held["returns"][last], held["rewards"][last], atol=1e-5)


def test_agents_with_replay_store_final_observations_and_act_on_first_ones(record, tmp_path):
    class Replay(FinalObservations, DQN):
        pass

    batch = record(camera=SCAN_CAMERA)
    env = SkrlEnv(ScanObservation(batch))
    memory = RandomMemory(memory_size=40, num_envs=N, device="cpu")
    agent = Replay(
        models={"q_network": Whim(env), "target_q_network": Whim(env)},
        memory=memory,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
        cfg=DQN_CFG(
            experiment={"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0}, learning_starts=1000
        ),
    )
    train(agent, env, timesteps=40)
    assert 10 < len(batch.ended) < 20 * N and len({one.env for one in batch.ended}) == N
    # An observation's last number is the goal's distance d as d / (1 + d).
    seen, then = (memory.get_tensor_by_name(name).numpy()[..., -1] for name in ("observations", "next_observations"))
    distance = np.array([observation[GOAL][:, 0] for observation, *_ in batch.steps])
    np.testing.assert_allclose(seen[1:], (distance / (1 + distance))[:-1], atol=1e-6)
    for step, ended, final in ends(batch):
        distance[step - 1, ended.env] = final
    np.testing.assert_allclose(then, distance / (1 + distance), atol=1e-6)


@pytest.mark.parametrize("count", [1, 3])
def test_observations_arrive_flat_and_in_order(record, count):
    env = SkrlEnv(record(count))
    observation, _ = env.reset()
    twin, _ = record(count).reset(seed=0)  # skrl's seed where none is set
    assert observation.dtype == torch.float32 and env.num_envs == count
    flat = np.concatenate([twin["depth"].reshape(count, -1), twin[GOAL]], axis=1)
    np.testing.assert_array_equal(observation.numpy(), flat)


def test_advantages_over_time_outs_are_refused(record, tmp_path):
    with pytest.raises(ValueError, match="set it to True"):
        agent_of(SkrlEnv(record()), tmp_path, time_limit_bootstrap=False)


def test_an_agent_on_skrls_own_wrapper_is_told_what_to_give_it(record, tmp_path):
    env = wrap_env(record(autoreset_mode="next_step"), wrapper="gymnasium", verbose=False)
    with pytest.raises(ValueError, match=r"no final_obs for 6 .*SkrlEnv\.make"):
        train(agent_of(env, tmp_path), env)
