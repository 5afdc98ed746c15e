"""Imitation of the shortest-path follower."""

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.actions.discrete import DiscreteActions  # noqa: E402
from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.train.imitation import expert_share, imitation_loss  # noqa: E402
from gym_batchnav.train.policy import make_policy  # noqa: E402
from gym_batchnav.train.ppo import PPO, PPOConfig  # noqa: E402


def test_the_expert_acts_at_first_and_then_only_speaks():
    assert [expert_share(progress, 0.4) for progress in (0, 0.1, 0.2, 0.399)] == [1.0, 0.5, 0.0, 0.0]
    assert expert_share(0.4, 0.4) is None
    assert expert_share(0.0, 0.0) is None


def test_the_loss_by_hand():
    logits = torch.log(torch.tensor([[[0.1, 0.2, 0.3, 0.4]], [[0.7, 0.1, 0.1, 0.1]]]))
    values = torch.tensor([[1.0], [2.0]])
    returns = torch.tensor([[3.0], [2.0]])
    loss, parts = imitation_loss(logits, values, torch.tensor([[2], [0]]), returns, value_weight=0.5)
    imitation = -(np.log(0.3) + np.log(0.7)) / 2
    assert parts["imitation"].item() == pytest.approx(imitation)
    assert parts["value"].item() == pytest.approx(0.5 * 4 / 2)
    assert parts["agreement"].item() == 0.5
    assert loss.item() == pytest.approx(imitation + 0.5 * 1.0)


def test_a_seeing_agent_comes_to_agree_with_the_expert(tmp_path):
    """PPO then continues in the same run."""
    library = SceneLibrary.from_scenes([box_room(width=6, depth=4)])
    keywords = {"library": library, "episodes": 300, "camera": Camera(16, 16)}
    env = BatchNavEnv(
        32, autoreset_mode="same_step", actions=DiscreteActions(forward_step=0.5, turn_angle_deg=30), **keywords
    )
    torch.manual_seed(0)
    policy = make_policy("small", env.single_observation_space)
    rollouts = {"num_steps": 16, "num_minibatches": 4, "num_epochs": 4, "imitation_share": 0.1}
    ppo = PPO(env, policy, PPOConfig(total_frames=10 * 10 * 32 * 16, optimizer="adamw", learning_rate=2e-3, **rollouts))
    reports = [ppo.iterate() for _ in range(11)]
    env.close()
    agreement = [report.losses["agreement"] for report in reports[:10]]
    assert agreement[0] < 0.5 and np.mean(agreement[-4:]) > 0.6
    assert "agreement" not in reports[10].losses and "policy" in reports[10].losses
