"""TorchRL takes a batch without an adapter, counts episodes correctly and learns from true last observations."""

# ruff: noqa: E402
from libraries import require

require("torchrl")

import numpy as np
import pytest
import torch
from ledger import LedgerEnv
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import GymWrapper, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.gym_like import default_info_dict_reader
from torchrl.envs.transforms import Compose
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.ids import make_batch
from gym_batchnav.geometry import Camera

N = 5
T = 37
GOAL = "pointgoal_with_gps_compass"
MODES = ["disabled", "same_step"]


@pytest.fixture
def make(settings, opened):
    return lambda mode, cls=LedgerEnv: opened(cls(N, autoreset_mode=mode, **settings))


class Actor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(66, 4)

    def forward(self, depth, goal):
        return self.layer(torch.cat([depth.flatten(-3), goal], -1)) - torch.tensor([2.0, 0, 0, 0])


class Distance(torch.nn.Module):
    """A critic with known values: the distance to the goal."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, goal):
        return self.scale * goal[..., :1]


def wrap(env, with_measures=False):
    wrapped = GymWrapper(env, categorical_action_encoding=True)
    if with_measures:
        spec = {"success": Unbounded((N,), dtype=torch.bool), "spl": Unbounded((N,), dtype=torch.float64)}
        wrapped.set_info_dict_reader(default_info_dict_reader(list(spec), spec=spec))
    return TransformedEnv(wrapped, Compose(RewardSum(), StepCounter()))


def make_actor():
    logits = TensorDictModule(Actor(), in_keys=["depth", GOAL], out_keys=["logits"])
    distribution = torch.distributions.Categorical
    return ProbabilisticActor(logits, in_keys=["logits"], distribution_class=distribution, return_log_prob=True)


def collect(env, actor, batches=4):
    size = N * T
    yield from Collector(
        env, actor, frames_per_batch=size, total_frames=batches * size, auto_register_policy_transforms=True
    )


def in_order(rollout):
    """Return one row per episode that ended, in order of time and then of environments."""
    steps = rollout["next"].transpose(0, 1)
    return steps[steps["done"].squeeze(-1)]


def first_of(twin, expected, seed=7):
    """Return the first observation of a rollout; TorchRL resets the environment again after seeding."""
    observation, _ = twin.reset(seed=seed)
    for _ in range(3):
        found = observation[GOAL] if isinstance(observation, dict) else observation
        if not np.array_equal(found, expected):
            observation, _ = twin.reset()
    return observation


@pytest.mark.parametrize("mode", MODES)
def test_training_counts_episodes_lengths_returns_and_time_outs_right(make, mode):
    ledger = make(mode)
    env = wrap(ledger, with_measures=mode == "disabled")
    env.set_seed(7)
    ledger.ended.clear()  # making its specifications, TorchRL has taken a few steps
    actor = make_actor()
    critic = ValueOperator(Distance(), in_keys=[GOAL])
    loss = ClipPPOLoss(actor, critic)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
    before = [parameter.clone() for parameter in loss.parameters()]
    rows = []
    for rollout in collect(env, actor):
        rows += [in_order(rollout)]
        advantage(rollout)
        losses = loss(rollout.reshape(-1))
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
        optimizer.step()
    assert any(not torch.equal(old, new) for old, new in zip(before, loss.parameters(), strict=True))
    rows = torch.cat(rows)
    ended = ledger.ended
    assert len(rows) == len(ended)
    assert {one.truncated for one in ended} == {True, False} == {one.success for one in ended}
    assert rows["step_count"].flatten().tolist() == [one.length for one in ended]
    assert rows["truncated"].flatten().tolist() == [one.truncated for one in ended]
    assert rows["terminated"].flatten().tolist() == [one.terminated for one in ended]
    np.testing.assert_allclose(rows["episode_reward"].flatten(), [one.reward for one in ended], atol=1e-5)
    if mode == "disabled":
        assert rows["success"].tolist() == [one.success for one in ended]
        np.testing.assert_allclose(rows["spl"], [one.spl for one in ended])


# Gymnasium's own SyncVectorEnv with a Dict fares no better: terminal_obs_reader looks for one array "observation".
LOST = pytest.mark.xfail(strict=True, reason="TorchRL 0.14 reads zeros for the final_obs of a Dict; DISABLED has none")


@pytest.mark.parametrize("mode", ["disabled", pytest.param("same_step", marks=LOST)])
def test_values_at_time_outs_are_those_of_the_true_last_observation(make, mode):
    env = wrap(make(mode))
    twin = make("disabled", BatchNavEnv)
    env.set_seed(7)
    critic = ValueOperator(Distance(), in_keys=[GOAL])
    target = GAE(gamma=0.5, lmbda=0.0, value_network=critic)  # reward + 0.5 value of the next observation
    (rollout,) = collect(env, make_actor(), batches=1)
    target(rollout)
    now = first_of(twin, rollout[GOAL][:, 0].numpy())
    truncations = 0
    for step in range(T):
        row = rollout[:, step]
        then, reward, terminated, truncated, _ = twin.step(row["action"].numpy())
        for sensor in ("depth", GOAL):
            np.testing.assert_array_equal(row[sensor], now[sensor])
            np.testing.assert_array_equal(row["next", sensor], then[sensor])
        np.testing.assert_array_equal(row["next", "terminated"].squeeze(-1), terminated)
        np.testing.assert_array_equal(row["next", "truncated"].squeeze(-1), truncated)
        expected = reward + 0.5 * then[GOAL][:, 0] * ~terminated
        np.testing.assert_allclose(row["value_target"].detach().squeeze(-1), expected, atol=1e-5)
        truncations += truncated.sum()
        ended = terminated | truncated
        now = twin.reset(options={"reset_mask": ended})[0] if ended.any() else then
    assert truncations > 3


def test_next_step_is_refused_with_the_modes_that_work(make):
    with pytest.raises(RuntimeError, match="must be one of SAME_STEP or DISABLED"):
        GymWrapper(make("next_step"))


def test_with_same_step_the_last_observation_of_a_flat_id_is_the_true_one(settings):
    torch.manual_seed(3)  # with these actions all episodes end in one step once
    flat = {**settings, "camera": Camera(width=16, height=1)}
    env, twin = (make_batch("PointNavScan", N, autoreset_mode=mode, **flat) for mode in ("same_step", "disabled"))
    wrapped = wrap(env)
    wrapped.set_seed(7)
    rollout = wrapped.rollout(T, break_when_any_done=False)
    now = first_of(twin, rollout["observation"][:, 0].numpy())
    for step in range(T):
        row = rollout[:, step]
        then, _, terminated, truncated, _ = twin.step(row["action"].numpy())
        np.testing.assert_array_equal(row["observation"], now)
        np.testing.assert_array_equal(row["next", "observation"], then)
        ended = terminated | truncated
        now = twin.reset(options={"reset_mask": ended})[0] if ended.any() else then
        if ended.all():  # TorchRL then resets once more, and the episodes that had begun are left out
            now, _ = twin.reset()
    env.close(), twin.close()
