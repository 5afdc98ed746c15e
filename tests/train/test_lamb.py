"""Lamb, compared with its formulas in NumPy; the schedule of the learning rate."""

from functools import partial

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.train.lamb import (  # noqa: E402
    Lamb,
    lamb_groups,
    learning_rate,
    scaled_learning_rate,
    trust_ratio,
)
from gym_batchnav.train.policy import make_policy  # noqa: E402


def test_the_trust_ratio_has_limits():
    def ratio(weight, step):
        return trust_ratio(torch.tensor([weight]), torch.tensor([step])).item()

    assert ratio(5.0, 0.001) == pytest.approx(100.0)
    assert ratio(0.0, 1.0) == 1 and ratio(1.0, 0.0) == 1


def test_biases_and_fixups_scalars_have_no_trust_ratio_and_all_decays():
    """The groups are those of bps-nav, bps_nav/rl/ppo/ppo.py:117-152, which selects them by parts of names."""
    space = Dict({"depth": Box(0, 1, (16, 16, 1), np.float32), "pointgoal_with_gps_compass": Box(-9, 9, (2,))})
    policy = make_policy("paper", space)
    names = {id(parameter): name for name, parameter in policy.named_parameters()}
    scaled, plain = (sorted(names[id(one)] for one in group["params"]) for group in lamb_groups(policy))
    assert sorted([*scaled, *plain]) == sorted(names.values())
    assert all(".bias" in name or ".biases." in name or name.endswith(".scale") for name in plain)
    assert not any("bias" in name or name.endswith(".scale") for name in scaled)
    assert "encoder.norm.weight" in scaled and "encoder.norm.bias" in plain and "core.cells.bias_ih_l1" in plain
    assert len([name for name in plain if "blocks" in name and "excite" not in name]) == 4 * 5
    groups = Lamb(lamb_groups(policy)).param_groups
    assert [group["trust"] for group in groups] == [True, False]
    assert [group["weight_decay"] for group in groups] == [1e-2, 1e-2]


def lamb_in_numpy(weights, gradients, rate, decay, trusted):
    """Compute the trajectory of one tensor by the formulas of You et al. 2020, with the limits of bps-nav."""
    mean = square = np.zeros_like(weights)
    found = []
    for step, gradient in enumerate(gradients, 1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        move = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-5) + decay * weights
        ratio = min(np.linalg.norm(weights), 10.0) / np.linalg.norm(move) if trusted else 1.0
        weights = weights - rate * np.clip(ratio, 0.01, 100.0) * move
        found.append(weights)
    return np.stack(found)


@pytest.mark.parametrize("trusted", [True, False])
def test_trajectories_of_several_tensors_are_those_of_the_formulas(trusted):
    rng = np.random.default_rng(0)
    starts = [size * rng.normal(size=(4, 3)) for size in (0.001, 1.0, 100.0)]
    gradients = rng.normal(size=(3, 8, 4, 3))
    weights = [torch.tensor(start, requires_grad=True) for start in starts]
    optimizer = Lamb([{"params": weights, "trust": trusted}], lr=0.03, weight_decay=1e-2)
    found = []
    for step in range(8):
        for one, gradient in zip(weights, gradients, strict=True):
            one.grad = torch.tensor(gradient[step])
        optimizer.step()
        found.append([one.detach().numpy().copy() for one in weights])
    expected = [lamb_in_numpy(*given, 0.03, 1e-2, trusted) for given in zip(starts, gradients, strict=True)]
    np.testing.assert_allclose(np.swapaxes(found, 0, 1), expected, rtol=1e-9)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"pass betas in \[0, 1\)"):
        Lamb([torch.zeros(1)], betas=(0.9, 1.0))


def test_the_learning_rate_grows_with_the_root_of_the_mini_batch():
    assert scaled_learning_rate(5e-4, 32, 512, 2) == pytest.approx(5e-4 * 32**0.5)
    assert scaled_learning_rate(5e-4, 32, 512, 2, num_workers=8) == pytest.approx(5e-4 * 16)
    assert scaled_learning_rate(5e-4, 32, 4, 2) == 5e-4


def test_the_schedule_warms_up_and_ends_at_a_hundredth_of_the_base_rate():
    """See bps-nav, ddppo_trainer.py:454-473: the final rate depends on the base rate only, not on the peak."""
    base = 5e-4
    peak = scaled_learning_rate(5e-4, 32, 512, 2)
    rate = partial(learning_rate, base=base, peak=peak)
    assert rate(0.0) == peak / 2 and rate(0.005) == pytest.approx(0.75 * peak) and rate(0.01) == pytest.approx(peak)
    assert rate(0.01 + 0.99 / 2) == pytest.approx((peak + 5e-6) / 2)
    assert rate(1.0) == pytest.approx(5e-6) and rate(1.5) == pytest.approx(5e-6)
    rates = [rate(share) for share in np.linspace(0.01, 1, 50)]
    assert rates == sorted(rates, reverse=True)
