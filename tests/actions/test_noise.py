"""Actuation noise: its distribution over many draws, its frame, and its keys."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from gym_batchnav import BatchNavEnv
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.actions.noise import LoCoBotNoise
from gym_batchnav.state import Commands

SIZE = 200_000
# From habitat_sim/agent/controls/pyrobot_noisy_controls.py, LoCoBot, Proportional: mean and variance ahead, to the
# right, and of the rotation.
LINEAR = [(0.017, 0.007), (0.042, 0.023), (0.031, 0.026)]
ROTATIONAL = [(0.001, 0.001), (0.005, 0.004), (0.043, 0.017)]
BLIND = {"scenes": "apartment_4", "sensors": ()}


def assert_truncated_normal(values, mean, variance, low=-np.inf):
    """Compare moments, bounds and the whole distribution with those of a truncated normal (Johnson et al., 10.1)."""
    deviation = math.sqrt(variance)
    a = max((low - mean) / deviation, -3)
    b = 3
    share = ndtr(b) - ndtr(a)
    density_a, density_b = np.exp(-np.square([a, b]) / 2) / math.sqrt(2 * math.pi)
    shift = (density_a - density_b) / share
    wanted_mean = mean + deviation * shift
    wanted_variance = variance * (1 + (a * density_a - b * density_b) / share - shift**2)
    standard_error = math.sqrt(wanted_variance / len(values))
    assert abs(values.mean() - wanted_mean) < 4 * standard_error
    assert abs(values.var() / wanted_variance - 1) < 4 * math.sqrt(2 / len(values))
    assert values.min() >= mean + a * deviation - 1e-9 and values.max() <= mean + b * deviation + 1e-9
    scaled = (np.sort(values)[::100] - mean) / deviation
    found = np.arange(0, len(values), 100) / len(values)
    assert np.abs(found - (ndtr(scaled) - ndtr(a)) / share).max() < 1.95 / math.sqrt(
        len(values)
    )  # Kolmogorov-Smirnov, p = 0.001


def performed(commands):
    """Metres ahead and to the right in the frame before the motion, and radians turned."""
    cos = np.cos(commands.turn)
    sin = np.sin(commands.turn)
    ahead = commands.forward * cos + commands.side * sin
    right = commands.side * cos - commands.forward * sin
    return ahead, right, commands.turn


def noisy(commands, multiplier=1.0, is_discrete=True, size=SIZE, seed=0):
    uniform = np.random.default_rng(seed).random((size, 3))
    return LoCoBotNoise(multiplier).apply(commands, uniform, is_discrete)


def test_a_move_has_the_published_noise():
    ahead, right, turned = performed(noisy(DiscreteActions(0.25).decode(np.full(SIZE, 1))))
    assert_truncated_normal(ahead - 0.25, *LINEAR[0], low=-0.95 * 0.25)
    assert_truncated_normal(right, *LINEAR[1])
    assert_truncated_normal(turned, *LINEAR[2])


@pytest.mark.parametrize(("action", "sign", "angle_deg"), [(2, 1, 10), (3, -1, 30)])
def test_a_turn_has_the_published_noise(action, sign, angle_deg):
    angle = np.radians(angle_deg)
    ahead, right, turned = performed(noisy(DiscreteActions(0.25, angle_deg).decode(np.full(SIZE, action))))
    assert_truncated_normal(ahead, *ROTATIONAL[0])
    assert_truncated_normal(right, *ROTATIONAL[1])
    assert_truncated_normal(sign * turned - angle, *ROTATIONAL[2], low=-0.95 * angle)


def test_the_components_are_independent():
    found = np.stack(performed(noisy(DiscreteActions().decode(np.full(SIZE, 1)))))
    np.testing.assert_allclose(np.corrcoef(found), np.eye(3), atol=9e-3)  # four standard errors


def test_the_multiplier_scales_the_noise_after_its_truncation():
    commands = DiscreteActions().decode(np.full(1000, 1))
    whole = performed(noisy(commands, 1, size=1000))
    half = performed(noisy(commands, 0.5, size=1000))
    for one, other, intended in zip(whole, half, (0.25, 0, 0), strict=True):
        np.testing.assert_allclose(other - intended, 0.5 * (one - intended), atol=1e-12)
    for name, array in noisy(commands, 0, size=1000)._asdict().items():
        np.testing.assert_array_equal(array, getattr(commands, name), err_msg=name)


def test_stop_and_looking_have_no_noise():
    commands = DiscreteActions(look_angle_deg=30).decode(np.array([0, 4, 5]))
    found = noisy(commands, size=3)
    assert not np.any([found.turn, found.forward, found.side])
    np.testing.assert_array_equal(found.look, commands.look)


def test_backwards_is_the_mirror_image():
    zero = np.zeros(100)
    there = Commands(zero, zero + 0.25, zero, zero > 0)
    back = there._replace(forward=-there.forward)
    ahead, right, turned = performed(noisy(there, size=100))
    for one, other in zip(performed(noisy(back, size=100)), (-ahead, -right, turned), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_the_noise_of_continuous_motion_grows_with_its_amount():
    """Mean and variance, in units of those of 0.25 m and 30 degrees; far from the truncation at 5% of the motion."""
    zero = np.zeros(SIZE)
    for share in (1, 4):
        commands = Commands(zero, zero + 0.25 * share, zero, zero > 0, is_arc=True)
        found = noisy(commands, is_discrete=False)
        assert_truncated_normal(found.side, *(share * np.array(LINEAR[1])))
        assert_truncated_normal(found.turn, *(share * np.array(LINEAR[2])))
        commands = Commands(zero - share * np.radians(30), zero, zero, zero > 0, is_arc=True)
        found = noisy(commands, is_discrete=False)
        assert_truncated_normal(found.forward, *(share * np.array(ROTATIONAL[0])))
        assert_truncated_normal(
            np.abs(found.turn) - share * np.radians(30), *(share * np.array(ROTATIONAL[2])),
            low=-0.95 * share * np.radians(30),
        )  # fmt: skip


def run(num_envs, chosen_actions, **keywords):
    """Positions and headings [T, 5, 4] of the first five environments."""
    env = BatchNavEnv(num_envs, autoreset_mode="same_step", episodes=50, **BLIND, **keywords)
    env.reset(seed=3)
    rows = []
    for chosen in chosen_actions:
        env.step(np.resize(chosen, (num_envs, *chosen.shape[1:])))
        rows.append(np.column_stack([env.agents.position, env.agents.heading])[:5].copy())
    env.close()
    return np.array(rows)


@pytest.mark.parametrize("name", ["discrete", "velocity"])
def test_noise_does_not_depend_on_the_number_of_environments(name):
    """600 of them use the parallel kernels."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(1, 4, (25, 5)) if name == "discrete" else rng.uniform(-0.5, 1, (25, 5, 2))
    few = run(5, chosen, actions=name, actuation_noise="locobot")
    many = run(600, chosen, actions=name, actuation_noise=LoCoBotNoise(0.5))
    np.testing.assert_array_equal(few, many)
    exact = run(5, chosen, actions=name)
    assert np.abs(few[0] - exact[0]).max() > 1e-3
    np.testing.assert_array_equal(run(5, chosen, actions=name, actuation_noise=LoCoBotNoise(0)), exact)


def test_noise_differs_between_steps_episodes_and_environments():
    env = BatchNavEnv(4, actuation_noise="locobot", actions=DiscreteActions(turn_angle_deg=30), episodes=50, **BLIND)
    turned = []
    for _ in range(2):
        env.reset(seed=None if turned else 0)
        for _ in range(3):
            before = env.agents.heading.astype(float)
            env.step(np.full(4, 2))
            turned.append((env.agents.heading - before) % (2 * np.pi))
    assert len(np.unique(np.round(turned, 5))) == 24
    state = env.get_state()
    env.step(np.full(4, 2))
    after = env.agents.heading.copy()
    env.set_state(state)
    env.step(np.full(4, 2))
    np.testing.assert_array_equal(env.agents.heading, after)
    env.close()


def test_unknown_noise_and_wrong_multipliers_are_refused():
    for wrong in ("LoCoBot", 0.5, LoCoBotNoise):
        with pytest.raises(ValueError, match=r"actuation_noise=.*'locobot'"):
            BatchNavEnv(2, actuation_noise=wrong, **BLIND)
    for wrong in (-1, np.nan, "1", True):
        with pytest.raises(ValueError, match="multiplier"):
            LoCoBotNoise(wrong)
