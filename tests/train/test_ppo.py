"""PPO: advantages, loss and gradients, compared with NumPy; reproducible and resumable training."""

import copy
import shutil
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooms import box, box_room, scene_of

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.actions.discrete import DiscreteActions  # noqa: E402
from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.mapping.sensors import MapPath  # noqa: E402
from gym_batchnav.task.pointnav import PointNav  # noqa: E402
from gym_batchnav.task.sensors import WalkScan  # noqa: E402
from gym_batchnav.train.distributed import Workers  # noqa: E402
from gym_batchnav.train.policy import GOAL, PREVIOUS_ACTION, Policy, make_policy  # noqa: E402
from gym_batchnav.train.ppo import PPO, PPOConfig, explained_variance, gae, minibatches, ppo_loss, standardize  # noqa: E402
from gym_batchnav.train.shards import Shards  # noqa: E402


def advantages_one_by_one(rewards, values, begun, bootstraps, gamma, gae_lambda):
    """Sum the discounted errors up to the end of the episode or of the rollout, which is the definition."""
    steps, envs = rewards.shape
    advantages = np.zeros((steps, envs))
    for env in range(envs):
        for step in range(steps):
            factor = 1.0
            for later in range(step, steps):
                over = begun[later + 1, env]
                following = bootstraps[later, env] if over else values[later + 1, env]
                error = rewards[later, env] + gamma * following - values[later, env]
                advantages[step, env] += factor * error
                factor *= gamma * gae_lambda
                if over:
                    break
    return advantages


@given(seed=st.integers(0, 10**6), gamma=st.floats(0, 1), gae_lambda=st.floats(0, 1), share=st.floats(0, 1))
def test_advantages_are_those_of_the_definition(seed, gamma, gae_lambda, share):
    rng = np.random.default_rng(seed)
    rewards, bootstraps = rng.normal(size=(2, 6, 3))
    values = rng.normal(size=(7, 3))
    arrays = rewards, values, rng.random((7, 3)) < share, bootstraps
    found = gae(*map(torch.as_tensor, arrays), gamma, gae_lambda)
    np.testing.assert_allclose(found, advantages_one_by_one(*arrays, gamma, gae_lambda), rtol=1e-9, atol=1e-12)


def test_the_share_of_the_returns_that_the_critic_foresaw():
    returns = torch.tensor([1.0, 3.0, 5.0, 7.0])
    for values, share in (([1.0, 3.0, 5.0, 7.0], 1.0), ([4.0] * 4, 0.0), ([7.0, 5.0, 3.0, 1.0], -3.0)):
        assert explained_variance(returns - torch.tensor(values), returns, Workers().total) == pytest.approx(share)
    assert explained_variance(torch.zeros(3), torch.full((3,), 2.0), Workers().total) == 1  # returns that are all alike


def loss_in_numpy(logits, values, actions, old_log_probs, advantages, returns, config):
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    total = 0.0
    for index in np.ndindex(actions.shape):
        ratio = np.exp(log_probs[index][actions[index]] - old_log_probs[index])
        limited = min(max(ratio, 1 - config.clip), 1 + config.clip)
        total -= min(ratio * advantages[index], limited * advantages[index])
        total += config.value_weight * 0.5 * (returns[index] - values[index]) ** 2
        total += config.entropy_weight * (np.exp(log_probs[index]) * log_probs[index]).sum()
    return total / actions.size


class TestLoss:
    def arrays(self, shape=(5, 4)):
        rng = np.random.default_rng(0)
        logits = rng.normal(size=(*shape, 4))
        actions = rng.integers(0, 4, shape)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        old = np.take_along_axis(log_probs, actions[..., None], -1)[..., 0] + rng.normal(0, 0.3, shape)
        return logits, rng.normal(size=shape), actions, old, rng.normal(size=shape), rng.normal(size=shape)

    def test_it_is_the_papers(self):
        arrays = self.arrays()
        config = PPOConfig(value_weight=0.7, entropy_weight=0.05)
        loss, parts = ppo_loss(*map(torch.as_tensor, arrays), config)
        assert loss.item() == pytest.approx(loss_in_numpy(*arrays, config), rel=1e-9)
        assert 0 < parts["clipped"] < 1 and parts["kl"] > 0

    def test_gradients_are_those_of_small_differences(self):
        """Gradients pass through the loss, the heads, the memory and its resets of a tiny policy in float64."""
        torch.manual_seed(0)
        policy = Policy(None, True, "gru", 3).double()
        torch.nn.init.normal_(policy.actor.weight)
        _, _, actions, _, advantages, returns = map(torch.as_tensor, self.arrays())
        observation = {GOAL: torch.randn(5, 4, 2).double(), PREVIOUS_ACTION: torch.randint(0, 4, (5, 4))}
        begun = torch.rand(5, 4) < 0.3
        state = torch.randn(1, 4, 3).double()
        old = torch.full((5, 4), np.log(0.25)).double()

        parameters = dict(policy.named_parameters())

        def loss(*weights):
            changed = dict(zip(parameters, weights, strict=True))
            logits, values, _ = torch.func.functional_call(policy, changed, (observation, state, begun))
            return ppo_loss(logits, values, actions, old, advantages, returns, PPOConfig())[0]

        assert torch.autograd.gradcheck(loss, tuple(parameters.values()), fast_mode=True)


def test_standard_values_have_mean_0_and_deviation_1():
    values = np.random.default_rng(0).normal(5, 0.1, (6, 7)).astype(np.float32)
    found = standardize(torch.as_tensor(values), Workers().total)
    np.testing.assert_allclose(found, (values - values.mean()) / values.std(), atol=1e-4)
    assert standardize(torch.full((2, 3), 4.0), Workers().total).abs().max() < 1e-3  # all alike: nothing to prefer


def test_mini_batches_take_every_environment_once():
    parts = list(minibatches(10, 3, torch.Generator().manual_seed(0)))
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(torch.cat(parts).tolist()) == list(range(10)) != torch.cat(parts).tolist()


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([box_room(width=6, depth=4)])


@pytest.fixture
def make(library, opened):
    """Return a function that makes PPO for a toy problem: long steps, wide turns, large goals."""

    def make(
        kind="blind", num_envs=8, seed=0, sensors=None, library=library, workers=None, agents_per_world=1, hidden=(),
        **kwargs,
    ):  # fmt: skip
        if sensors is None:
            sensors = {"blind": (), "small": ("depth", "rgb"), "paper": ("depth",)}[kind]
        env = opened(BatchNavEnv(
            num_envs, library=library, sensors=sensors, agents_per_world=agents_per_world, camera=Camera(16, 16),
            actions=DiscreteActions(forward_step=0.5, turn_angle_deg=30), task=PointNav(success_distance=0.5),
            max_episode_steps=60, episodes=300, autoreset_mode="same_step",
        ))  # fmt: skip
        torch.manual_seed(seed)
        config = {"total_frames": 100_000, "num_steps": 8, "optimizer": "adamw", "learning_rate": 1e-3, **kwargs}
        policy = make_policy(kind, env.single_observation_space, hidden)
        return PPO(env, policy, PPOConfig(**config), seed=seed, workers=workers)

    return make


def curve(ppo, iterations):
    """Run a few iterations; return their reports and the weights."""
    reports = [ppo.iterate() for _ in range(iterations)]
    weights = torch.cat([parameter.detach().flatten() for parameter in ppo.policy.parameters()])
    return [(report.frames, report.losses, report.episodes["spl"].tolist()) for report in reports], weights


class TestTraining:
    def test_one_seed_gives_one_curve(self, make):
        first, second, other = (curve(make("small", seed=seed, imitation_share=0.001), 3) for seed in (0, 0, 1))
        assert first[0] == second[0] != other[0]
        assert torch.equal(first[1], second[1])

    @pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
    def test_it_resumes_to_the_same_curve(self, make, optimizer):
        keywords = {"num_epochs": 2, "optimizer": optimizer, "hidden": ("depth",), "depth_batch": 24}
        ppo = make("small", **keywords)
        curve(ppo, 2)
        state = copy.deepcopy(ppo.get_state())
        expected, weights = curve(ppo, 2)
        resumed = make("small", seed=5, **keywords)
        resumed.set_state(state)
        found, same_weights = curve(resumed, 2)
        assert found == expected
        assert torch.equal(weights, same_weights)

    @pytest.mark.parametrize("imitation_share", [0.0, 1.0])
    def test_shards_learn_what_the_whole_does_with_any_number_of_threads(self, make, imitation_share):
        def learned(shards):
            ppo = make(
                "small", num_envs=14, normalize_advantages=True, imitation_share=imitation_share,
                hidden=("depth",), depth_batch=48,
            )  # fmt: skip
            ppo._shards = ppo.collector._shards = shards
            reports, weights = curve(ppo, 2)
            return [losses for _, losses, _ in reports], weights

        losses, weights = learned(Shards(1, acting=3, learning=3))
        same, same_weights = learned(Shards(3, acting=3, learning=3))
        assert same == losses and torch.equal(same_weights, weights)
        whole, whole_weights = learned(None)
        torch.testing.assert_close(weights, whole_weights, rtol=0, atol=2e-3)  # Adam's steps have a length of 1e-3
        for one, other in zip(losses, whole, strict=True):
            assert one == pytest.approx(other, rel=0.02, abs=1e-4)

    def test_what_a_policy_cannot_read_it_learns_to_predict(self, make):
        sensors = ("depth", WalkScan(), MapPath())
        hidden = ("walk_scan", "map_path")
        ppo = make("small", sensors=sensors, hidden=hidden, imitation_share=1.0, teacher="mapper", num_epochs=4)
        rollout = ppo.collector.collect(1.0)
        losses = [ppo._learn(rollout, expert=0.0) for _ in range(15)]
        for name in hidden:
            assert losses[-1][f"predict_{name}"] < 0.5 * losses[0][f"predict_{name}"]
        assert losses[-1]["agreement"] > losses[0]["agreement"] + 0.1

    def test_trainings_and_workers_share_no_seed(self, make):
        def seeds(seed, rank):
            workers = Workers()
            workers.rank = rank
            workers.size = 2
            with mock.patch.object(workers, "parallel"):
                ppo = make(num_envs=6, seed=seed, workers=workers)
            return ppo.collector.env.episodes.seed.tolist()

        found = [one for seed in (0, 1, 2) for rank in (0, 1) for one in seeds(seed, rank)]
        assert sorted(found) == list(range(36))

    def test_each_iteration_learns_and_reports(self, make):
        ppo = make("small", num_minibatches=4, num_epochs=2)
        for iteration in range(2):
            before = [parameter.detach().clone() for parameter in ppo.policy.parameters()]
            mean = ppo.policy.encoder.channels.moments.mean.clone()
            report = ppo.iterate()
            assert report.frames == ppo.frames == 64 * (iteration + 1)
            assert report.losses.keys() == {
                "policy", "value", "entropy", "kl", "clipped", "grad_norm", "explained_variance",
            }  # fmt: skip
            assert report.seconds.keys() == {"simulate", "render", "infer", "learn", "wait"}
            assert not any(torch.equal(old, new) for old, new in zip(before, ppo.policy.parameters(), strict=True))
            assert not torch.equal(mean, ppo.policy.encoder.channels.moments.mean)

    def test_probabilities_have_not_moved_before_the_first_step(self, make):
        """Learning uses the same states, masks and images as acting."""
        ppo = make("small", num_minibatches=1)
        for _ in range(3):
            report = ppo.iterate()
            assert abs(report.losses["kl"]) < 1e-6 and report.losses["clipped"] == 0

    def test_advantages_are_normalized_on_request(self, make):
        """Before the first step every ratio is 1 and the loss is the mean of the advantages."""
        found = {on: make(num_minibatches=1, normalize_advantages=on).iterate().losses for on in (False, True)}
        assert abs(found[True]["policy"]) < 1e-6 < 1e-3 < abs(found[False]["policy"])

    def test_what_agents_do_while_they_wait_changes_nothing(self, make):
        """Neither their actions, values and rewards, nor the value of the state in which they begin to wait, count."""
        ppo = make(num_envs=8, agents_per_world=4, num_minibatches=1)
        for _ in range(4):
            rollout = ppo.collector.collect()
        waiting = rollout.waiting
        assert 10 < waiting.sum() < waiting.numel() - 10
        before = {name: value.clone() for name, value in ppo.policy.state_dict().items()}
        optimizer = ppo.optimizer.state_dict()
        losses = []
        for spoiled in (False, True):
            ppo.policy.load_state_dict(before)
            ppo.optimizer.load_state_dict(optimizer)
            if spoiled:
                rollout.values[waiting] += 100
                rollout.rewards[waiting[:-1]] -= 50
                rollout.actions[waiting[:-1]] = 3 - rollout.actions[waiting[:-1]]
                rollout.log_probs[waiting[:-1]] -= 2
            losses.append(ppo._learn(rollout, expert=None))
        assert losses[1] == pytest.approx(losses[0], rel=1e-4, abs=1e-6)  # the order of environments differs

    def test_progress_sets_the_learning_rate(self, make):
        ppo = make(total_frames=12_800)
        rates = []
        for progress in (None, None, 0.0, 0.01, 1.0):  # None: by the frames, of which an iteration has 64
            ppo.iterate(progress)
            rates.append(ppo.optimizer.param_groups[0]["lr"])
        assert rates == pytest.approx([0.5e-3, 0.75e-3, 0.5e-3, 1e-3, 1e-5])

    @pytest.mark.slow
    def test_the_papers_policy_fits_a_rollout_with_lamb(self, make):
        """Learn repeatedly from one rollout.

        The bounds do not come from a run: the loss of the best constant critic is half the variance of the returns, and
        with ratios in 1 +- clip the policy's loss cannot fall by more than clip times the mean absolute advantage.
        """
        ppo = make("paper", num_envs=4, optimizer="lamb", learning_rate=5e-3, num_minibatches=1, entropy_weight=0.0)
        rollout = ppo.collector.collect()
        config = ppo.config
        outcome = (rollout.rewards, rollout.values, rollout.begun, rollout.bootstraps)
        advantages = gae(*outcome, config.gamma, config.gae_lambda)
        returns = advantages + rollout.values[:-1]
        for group in ppo.optimizer.param_groups:
            group["lr"] = 5e-3
        losses = [ppo._learn(rollout, expert=None) for _ in range(20)]
        assert min(one["value"] for one in losses) < 0.5 * returns.var(correction=0)
        gain = losses[0]["policy"] - losses[-1]["policy"]
        assert 0.5 * config.clip < gain / advantages.abs().mean() <= config.clip + 1e-6

    def test_mixed_precision_stays_near(self, make):
        """Compare the logits of an actor with weights of order one, which are sensitive to its features."""
        ppo = make("small")
        torch.nn.init.normal_(ppo.policy.actor.weight, std=1.0)
        rollout = ppo.collector.collect()
        sequence = (rollout.observed(slice(None)), rollout.state, rollout.begun)
        with torch.no_grad():
            plain, _, _ = ppo.policy(*sequence)
            with torch.autocast("cpu", torch.bfloat16):
                mixed, _, _ = ppo.policy(*sequence)
        error = (mixed - plain).abs() / plain.std()
        assert 0 < error.mean() < 0.03 and error.max() < 0.2
        assert mixed.dtype == torch.float32

    @pytest.mark.parametrize("features", [{}, {"avx512bf16": False}, {"avx512bf16": True}, {"amx-bf16": True}])
    def test_mixed_precision_is_used_where_the_processor_has_it(self, features, make, monkeypatch):
        monkeypatch.setattr("gym_batchnav.train.ppo.llvm.get_host_cpu_features", lambda: features)
        assert make("blind", autocast="auto").collector.autocast == any(features.values())

    def test_the_order_of_channels_changes_nothing(self, make):
        plain = make("small")
        ordered = make("small", channels_last=True)
        assert ordered.policy.encoder.convolutions[2].weight.is_contiguous(memory_format=torch.channels_last)
        rollout = plain.collector.collect()
        expected = plain._learn(rollout, expert=None)
        assert ordered._learn(rollout, expert=None) == pytest.approx(expected, rel=1e-3, abs=1e-5)

    @pytest.mark.long  # on another processor a rounding may choose another action, after which all differs
    @pytest.mark.timeout(900)
    @pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
    def test_the_compiled_encoder_learns_the_same(self, make):
        plain = make("small")
        compiled = make("small", compile=True)
        compiled.collector.collect()  # acting is compiled, too
        rollout = plain.collector.collect()
        expected = plain._learn(rollout, expert=None)
        assert compiled._learn(rollout, expert=None) == pytest.approx(expected, rel=1e-3, abs=1e-5)
        assert plain.policy.state_dict().keys() == compiled.policy.state_dict().keys()

    def test_gradients_are_clipped(self, make):
        ppo = make("blind", num_minibatches=1, max_grad_norm=1e-3)
        assert ppo.iterate().losses["grad_norm"] > 1e-3
        norms = torch.stack([parameter.grad.norm() for parameter in ppo.policy.parameters()])
        assert norms.norm().item() == pytest.approx(1e-3, rel=1e-3)

    def test_impossible_configurations_are_refused(self, make, library):
        with pytest.raises(ValueError, match="num_minibatches=9: pass at most num_envs=8"):
            make(num_minibatches=9)
        with pytest.raises(ValueError, match="optimizer='sgd': choose"):
            PPOConfig(optimizer="sgd")
        with pytest.raises(ValueError, match="teacher='me' is neither a known name nor a file"):
            PPOConfig(teacher="me")
        for name, value in (
            *(("num_steps", 0), ("gamma", 2), ("learning_rate", float("nan")), ("max_grad_norm", -1.0)),
            *(("clip", 0.0), ("entropy_weight", -0.01), ("value_weight", float("inf")), ("num_epochs", 1.5)),
        ):
            with pytest.raises(ValueError, match=f"{name}={value}: pass a"):
                PPOConfig(**{name: value})


def room_with_a_door(place):
    """Return a room of 6 x 4 m divided by a wall with a door, 0.8 m wide, at z = ``place``."""
    walls = [box((-0.1, 0, -2), (0.1, 2.6, place - 0.4)), box((-0.1, 0, place + 0.4), (0.1, 2.6, 2))]
    return scene_of(f"door at {place}", box((-3, 0, -2), (3, 2.6, 2), inward=True), *walls)


@pytest.mark.slow
def test_a_door_is_found_by_sight(make):
    """Imitation is the first half of the training, PPO the second.

    Each home has its door at another place, which a seeing agent finds at once and a blind one by trial.
    """
    homes = SceneLibrary.from_scenes([room_with_a_door(place) for place in (-1.5, -0.5, 0.5, 1.5)])
    batch = {"num_envs": 128, "num_steps": 16, "num_minibatches": 4, "total_frames": 80_000}
    ppo = make("small", sensors=("depth",), library=homes, imitation_share=0.5, normalize_advantages=True, **batch)
    found = []
    while ppo.frames < ppo.config.total_frames:
        found.append(ppo.iterate().episodes["spl"])
    imitation, learned = (np.concatenate(found[end - 8 : end]).mean() for end in (len(found) // 2, len(found)))
    assert learned > 0.33 and learned > imitation + 0.1  # after as many frames a blind agent has 0.16
