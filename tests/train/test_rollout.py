"""Rollouts: what is written down is what happened."""

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.env import BatchNavEnv  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.scene.library import SceneLibrary  # noqa: E402
from gym_batchnav.train.policy import GOAL, PREVIOUS_ACTION, make_policy  # noqa: E402
from gym_batchnav.train.rollout import Collector  # noqa: E402

ENVS, STEPS, LIMIT = 6, 12, 7


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([box_room()])


@pytest.fixture
def make(library, tmp_path):
    made = []

    def make(**kwargs):
        keywords = {"library": library, "num_episodes": 50, "cache_dir": tmp_path, "camera": Camera(16, 16)}
        keywords |= {"max_episode_steps": LIMIT, "autoreset_mode": "same_step", "sensors": ("depth", "rgb"), **kwargs}
        made.append(BatchNavEnv(ENVS, **keywords))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def policy(make):
    """A small policy with preferences of its own, so that its memory and its eyes matter."""
    torch.manual_seed(0)
    policy = make_policy("small", make().single_observation_space)
    torch.nn.init.normal_(policy.actor.weight, std=0.1)
    torch.nn.init.constant_(policy.actor.bias[:1], -1.0)  # STOP less often
    return policy


def replay(env, rollouts, seed):
    """Take the actions of rollouts in a fresh environment: (observation, action, outcome) of every step."""
    observation, _ = env.reset(seed=seed)
    for actions in rollouts:
        for action in actions:
            outcome = env.step(action.numpy())
            yield observation, outcome
            observation = outcome[0]


def test_the_environment_says_the_same_again(make, policy):
    collector = Collector(make(), policy, STEPS, seed=3)
    rollouts, begun = [], np.ones(ENVS, bool)
    for _ in range(3):
        one = collector.collect()
        rollouts.append({"actions": one.actions.clone(), "rewards": one.rewards.clone(), "begun": one.begun.clone()})
        rollouts[-1] |= {name: one.observations[name].clone() for name in one.observations}
        rollouts[-1]["spl"] = one.episodes["spl"]
    steps = replay(make(), [one["actions"] for one in rollouts], seed=3)
    previous = np.zeros(ENVS, int)
    for one in rollouts:
        ended_spl = []
        for step in range(STEPS):
            observation, (_, reward, terminated, truncated, info) = next(steps)
            for name in ("depth", "rgb", GOAL):
                np.testing.assert_array_equal(one[name][step], observation[name])
            np.testing.assert_array_equal(one["begun"][step], begun)
            np.testing.assert_array_equal(one[PREVIOUS_ACTION][step], previous)
            np.testing.assert_allclose(one["rewards"][step], reward, rtol=1e-6)
            begun, previous = terminated | truncated, one["actions"][step].numpy()
            if begun.any():
                ended_spl += list(info["final_info"]["spl"][begun])
        np.testing.assert_array_equal(one["spl"], ended_spl)
    assert sum(len(one["spl"]) for one in rollouts) > ENVS


def test_learning_sees_what_acting_saw(make, policy):
    """The sequence forward of a rollout gives the values and probabilities with which its actions were chosen."""
    collector = Collector(make(), policy, STEPS, seed=1)
    for _ in range(3):
        rollout = collector.collect()
        with torch.no_grad():
            logits, values, _ = policy(rollout.observed(slice(None)), rollout.state, rollout.begun)
        torch.testing.assert_close(values, rollout.values, rtol=1e-4, atol=1e-5)
        log_probs = logits[:-1].log_softmax(-1).gather(-1, rollout.actions[..., None]).squeeze(-1)
        torch.testing.assert_close(log_probs, rollout.log_probs, rtol=1e-4, atol=1e-5)
        assert rollout.begun[1:-1].any()


def test_time_outs_are_bootstrapped_with_their_last_observation(make, policy):
    """And only they: what follows a STOP is worth nothing."""
    torch.nn.init.constant_(policy.actor.bias[:1], -0.5)
    collector = Collector(make(max_episode_steps=4), policy, STEPS, seed=2)
    rollout = collector.collect()
    steps = list(replay(make(max_episode_steps=4), [rollout.actions], seed=2))
    assert any(outcome[2].any() for _, outcome in steps) and any(outcome[3].any() for _, outcome in steps)
    for step, (_, (_, _, _, truncated, info)) in enumerate(steps):
        assert not rollout.bootstraps[step][torch.as_tensor(~truncated)].any()
        if not truncated.any():
            continue
        final = {name: torch.as_tensor(values)[None] for name, values in info["final_obs"].items()}
        final[PREVIOUS_ACTION] = rollout.actions[step][None]
        # The episode goes on by one more observation: the rollout's up to this step, then the final one.
        seen = {name: torch.cat([values[: step + 1], final[name]]) for name, values in rollout.observations.items()}
        begun = torch.cat([rollout.begun[: step + 1], torch.zeros(1, ENVS, dtype=torch.bool)])
        with torch.no_grad():
            _, values, _ = policy(seen, rollout.state, begun)
        np.testing.assert_allclose(rollout.bootstraps[step][truncated], values[-1][truncated], rtol=1e-4, atol=1e-5)


def test_actions_are_drawn_with_the_policys_probabilities(make, policy):
    collector = Collector(make(max_episode_steps=500), policy, 100, seed=0)
    rollout = collector.collect()
    with torch.no_grad():
        logits, *_ = policy(rollout.observed(slice(None, -1)), rollout.state, rollout.begun[:-1])
    expected = logits.softmax(-1).mean((0, 1))
    found = torch.bincount(rollout.actions.flatten(), minlength=4) / rollout.num_frames
    np.testing.assert_allclose(found, expected, atol=4 * (0.25 / rollout.num_frames) ** 0.5)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_expert_takes_its_share(make, policy, share):
    collector = Collector(make(max_episode_steps=500), policy, 60, seed=0)
    rollout = collector.collect(share)
    env = make(max_episode_steps=500)
    env.reset(seed=0)
    for step in range(60):
        np.testing.assert_array_equal(rollout.expert_actions[step], env.shortest_path_actions())
        env.step(rollout.actions[step].numpy())
    agreed = (rollout.actions == rollout.expert_actions).float().mean().item()
    if share == 1.0:
        assert agreed == 1 and rollout.episodes["success"].all() and len(rollout.episodes["success"])
    else:
        own = collector.collect(0.0)
        chance = (own.actions == own.expert_actions).float().mean().item()
        assert agreed == pytest.approx(share + (1 - share) * chance, abs=0.15)
