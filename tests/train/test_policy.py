"""The policies: sizes, memory, and one interface for steps and sequences."""

import time

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.train.policy import GOAL, POLICIES, PREVIOUS_ACTION, make_policy  # noqa: E402

STEPS, ENVS, SIDE = 7, 5, 16


def space(*sensors, side=SIDE, farthest=1.0):
    pictures = {
        "depth": Box(0, farthest, (side, side, 1), np.float32),
        "rgb": Box(0, 255, (side, side, 3), np.uint8),
        "semantic": Box(0, 9, (side, side, 1), np.int32),
    }
    return Dict({**{name: pictures[name] for name in sensors}, GOAL: Box(-9, 9, (2,), np.float32)})


def observations(side=SIDE, steps=STEPS, envs=ENVS, seed=0):
    """Random observations [T, N, ...] of every sensor."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, envs, side, side)
    return {
        "depth": torch.rand(*shape, 1, generator=generator),
        "rgb": torch.randint(0, 256, (*shape, 3), generator=generator, dtype=torch.uint8),
        GOAL: torch.randn(steps, envs, 2, generator=generator),
        PREVIOUS_ACTION: torch.randint(0, 4, (steps, envs), generator=generator),
    }


@pytest.mark.parametrize(
    ("sensor", "side", "count"),
    [("depth", 64, 10_988_085), ("rgb", 64, 10_979_893), ("depth", 128, 10_103_157), ("rgb", 128, 10_094_965)],
)
def test_the_papers_policy_has_the_papers_size(sensor, side, count):
    policy = make_policy("paper", space(sensor, side=side))
    assert sum(parameter.numel() for parameter in policy.parameters()) == count


def test_the_small_policy_is_small():
    policy = make_policy("small", space("depth", side=64))
    assert sum(parameter.numel() for parameter in policy.parameters()) < 600_000


@pytest.mark.parametrize("kind", POLICIES)
def test_a_sequence_is_the_same_as_its_steps(kind):
    """Memories are reset wherever an episode begins, in the middle as well as at the start."""
    torch.manual_seed(0)
    policy = make_policy(kind, space("depth", "rgb"))
    torch.nn.init.normal_(policy.actor.weight)
    observation = observations()
    begun = torch.rand(STEPS, ENVS, generator=torch.Generator().manual_seed(1)) < 0.3
    state = torch.randn_like(policy.initial_state(ENVS))
    with torch.no_grad():
        logits, values, last = policy(observation, state, begun)
        assert logits.shape == (STEPS, ENVS, 4) and values.shape == (STEPS, ENVS)
        for step in range(STEPS):
            now = {name: value[step] for name, value in observation.items()}
            step_logits, step_values, state = policy(now, state, begun[step])
            torch.testing.assert_close(step_logits, logits[step], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(step_values, values[step], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, last, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", POLICIES)
def test_nothing_is_remembered_beyond_the_beginning_of_an_episode(kind):
    policy = make_policy(kind, space("depth"))
    torch.nn.init.normal_(policy.actor.weight)
    observation, begun = observations(), torch.zeros(STEPS, ENVS, dtype=torch.bool)
    begun[3, :2] = True
    other = {name: value.clone() for name, value in observation.items()}
    for name, value in observations(seed=1).items():
        other[name][:3] = value[:3]
    other[PREVIOUS_ACTION][3] = (observation[PREVIOUS_ACTION][3] + 1) % 4  # of an episode that is over
    state = torch.randn_like(policy.initial_state(ENVS))
    with torch.no_grad():
        logits, _, last = policy(observation, state, begun)
        other_logits, _, other_last = policy(other, 2 * state, begun)
    torch.testing.assert_close(logits[3:, :2], other_logits[3:, :2])
    torch.testing.assert_close(last[:, :2], other_last[:, :2])
    assert (logits[3:, 2:] - other_logits[3:, 2:]).abs().amax((0, 2)).min() > 1e-4  # the others remember


def test_environments_do_not_see_each_other():
    policy = make_policy("small", space("depth"))
    torch.nn.init.normal_(policy.actor.weight)
    observation, begun = observations(), torch.zeros(STEPS, ENVS, dtype=torch.bool)
    order = torch.tensor([3, 1, 4, 0, 2])
    permuted = {name: value[:, order] for name, value in observation.items()}
    with torch.no_grad():
        logits, values, _ = policy(observation, policy.initial_state(ENVS), begun)
        other_logits, other_values, _ = policy(permuted, policy.initial_state(ENVS), begun)
    torch.testing.assert_close(logits[:, order], other_logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values[:, order], other_values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["depth", "rgb", GOAL, PREVIOUS_ACTION])
def test_every_sensor_counts(name):
    policy = make_policy("small", space("depth", "rgb"))
    torch.nn.init.normal_(policy.actor.weight)
    observation, begun = observations(), torch.zeros(STEPS, ENVS, dtype=torch.bool)
    changed = {**observation, name: observations(seed=2)[name]}
    with torch.no_grad():
        logits, *_ = policy(observation, policy.initial_state(ENVS), begun)
        other, *_ = policy(changed, policy.initial_state(ENVS), begun)
    assert (logits - other).abs().max() > 1e-3


def test_goals_are_embedded_as_the_paper_does():
    """Distance, then cosine and sine of the angle with right positive."""
    policy = make_policy("blind", space())
    observation = {GOAL: torch.tensor([[[2.0, 0.3]]]), PREVIOUS_ACTION: torch.zeros(1, 1).long()}
    inputs = policy._inputs(observation, torch.ones(1, 1, dtype=torch.bool))[0, 0]
    goal = torch.tensor([2.0, np.cos(-0.3), np.sin(-0.3)], dtype=torch.float32)
    embedded = policy.goal_embedding.weight @ goal + policy.goal_embedding.bias
    torch.testing.assert_close(inputs, torch.cat([policy.action_embedding.weight[0], embedded]))


def test_impossible_policies_are_refused():
    with pytest.raises(ValueError, match="choose one of 'paper', 'small', 'blind'"):
        make_policy("resnet", space("depth"))
    with pytest.raises(ValueError, match="nothing to see"):
        make_policy("small", space("semantic"))
    with pytest.raises(ValueError, match="normalize_depth=True"):
        make_policy("paper", space("depth", farthest=10.0))
    with pytest.raises(ValueError, match="4x4 or more"):
        make_policy("small", space("depth", side=3))


def test_the_small_policy_infers_3000_frames_a_second():
    """On two cores at 64 x 64; the best of several tries, since others may use the cores."""
    policy = make_policy("small", space("depth", side=64))
    observation = {name: value[0] for name, value in observations(side=64, steps=1, envs=128).items()}
    state, begun = policy.initial_state(128), torch.zeros(128, dtype=torch.bool)
    seconds = []
    with torch.no_grad():
        for _ in range(20):
            start = time.perf_counter()
            policy(observation, state, begun)
            seconds.append(time.perf_counter() - start)
    assert 128 / min(seconds) > 3000
