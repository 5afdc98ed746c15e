"""Imitation of the shortest-path follower."""

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.actions.discrete import DiscreteActions  # noqa: E402
from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.evaluation.world import policy_about  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.train.imitation import expert_share, imitation_loss, make_teacher  # noqa: E402
from gym_batchnav.train.policy import PREVIOUS_ACTION, TEACHER_FEATURES, make_policy  # noqa: E402
from gym_batchnav.train.policy_file import save_policy  # noqa: E402
from gym_batchnav.train.ppo import PPO, PPOConfig  # noqa: E402
from gym_batchnav.train.rollout import Collector  # noqa: E402
from gym_batchnav.train.run import take_memory  # noqa: E402


def test_the_expert_acts_at_first_and_then_only_speaks():
    assert [expert_share(progress, 0.4) for progress in (0, 0.1, 0.2, 0.399)] == [1.0, 0.5, 0.0, 0.0]
    assert expert_share(0.4, 0.4) is None
    assert expert_share(0.0, 0.0) is None


def test_the_loss_by_hand():
    logits = torch.log(torch.tensor([[[0.1, 0.2, 0.3, 0.4]], [[0.7, 0.1, 0.1, 0.1]]]))
    taught = torch.tensor([[[0.0, 0.0, 1.0, 0.0]], [[0.8, 0.2, 0.0, 0.0]]])
    values = torch.tensor([[1.0], [2.0]])
    returns = torch.tensor([[3.0], [2.0]])
    loss, parts = imitation_loss(logits, values, taught, returns, value_weight=0.5)
    imitation = -(np.log(0.3) + 0.8 * np.log(0.7) + 0.2 * np.log(0.1)) / 2
    assert parts["imitation"].item() == pytest.approx(imitation)
    assert parts["value"].item() == pytest.approx(0.5 * 4 / 2)
    assert parts["agreement"].item() == 0.5
    assert loss.item() == pytest.approx(imitation + 0.5 * 1.0)


@pytest.fixture
def make(opened):
    library = SceneLibrary.from_scenes([box_room(width=6, depth=4)])
    keywords = {"library": library, "camera": Camera(16, 16), "episodes": 300, "autoreset_mode": "same_step"}
    return lambda num_envs, **more: opened(BatchNavEnv(num_envs, **{**keywords, **more}))


@pytest.fixture
def taught(make, tmp_path):
    """An untrained teacher that sees depth, and its file."""
    torch.manual_seed(0)
    env = make(2)
    teacher = make_policy("compact", env.single_observation_space)
    path = str(tmp_path / "teacher.safetensors")
    save_policy(path, teacher, policy_about(env, "compact", "cpu", 0, 0))
    return teacher, path


def test_a_student_that_sees_colours_learns_the_features_that_its_teacher_sees_in_depth(make, taught):
    teacher, path = taught
    env = make(16, sensors=("rgb", "depth"))
    student = make_policy("compact", env.single_observation_space, hidden=("depth",))
    take_memory(student, path)
    assert torch.equal(student.core.cells.weight_hh_l0, teacher.core.cells.weight_hh_l0)
    assert student.encoder.channels.sensors == ("rgb",)
    config = PPOConfig(
        total_frames=10**6, num_steps=8, num_minibatches=4, optimizer="adamw", learning_rate=2e-3,
        prediction_weight=1.0, imitation_share=1.0, teacher=path,
    )  # fmt: skip
    ppo = PPO(env, student, config)
    errors = [ppo.iterate().losses["predict_teacher_features"] for _ in range(8)]
    assert np.mean(errors[-3:]) < 0.7 * errors[0]
    memory = teacher.core.cells.weight_hh_l0
    torch.testing.assert_close(student.core.cells.weight_hh_l0, memory, rtol=2e-3, atol=0)  # weights decay a little
    ppo.iterate(0.3)
    assert (student.core.cells.weight_hh_l0 - memory).abs().max() > 1e-3
    losses = ppo.iterate(1.0).losses  # of PPO
    assert "policy" in losses and "predict_teacher_features" not in losses
    rollout = ppo.collector.collect(1.0)
    features = teacher.features({"depth": rollout.observations["depth"][:-1]})
    torch.testing.assert_close(rollout.observations["teacher_features"][:-1], features)
    assert (rollout.actions == rollout.taught.argmax(-1)).all()
    torch.testing.assert_close(rollout.taught.sum(-1), torch.ones(8, 16))


def test_an_encoder_of_colours_learns_depth_in_small_batches(make):
    env = make(16, sensors=("rgb", "depth"), camera=Camera(40, 16))
    policy = make_policy("compact", env.single_observation_space, hidden=("depth",))
    config = PPOConfig(num_steps=8, optimizer="adamw", learning_rate=2e-3, prediction_weight=0.0, depth_batch=48)
    ppo = PPO(env, policy, config)
    errors = [ppo.iterate().losses["depth"] for _ in range(6)]
    assert errors[-1] < 0.8 * errors[0]  # 0.3 to 0.65 of it for 14 seeds
    rollout = ppo.collector.collect()
    memory = policy.core.cells.weight_hh_l0.clone()
    ppo._learn_depth(rollout, ppo._depth_optimizer)
    assert torch.equal(policy.core.cells.weight_hh_l0, memory)
    frames = rollout.observed(slice(None, -1))
    *_, predicted = policy(frames, rollout.state, rollout.begun[:-1], predict=True)
    code = 1 + 2 * torch.log(frames["depth"].clamp(0.005, 1)) / np.log(200)
    error = ((predicted["depth"] - code[:, :, ::2, ::2]) ** 2).mean()  # at most 32 x 32 pixels
    torch.testing.assert_close(policy.prediction_loss("depth", predicted["depth"], frames["depth"]), error)
    assert error < errors[0]


def test_a_teacher_that_is_imitated_again_remembers_nothing(make, taught):
    env = make(2)
    student = make_policy("compact", env.single_observation_space)
    collector = Collector(env, student, num_steps=2, teacher=taught[1])
    collector.collect(1.0)
    assert collector.get_state()["teacher"].any()
    collector.collect()
    assert not collector.get_state()["teacher"].any()


def test_a_teacher_sees_every_second_pixel_of_larger_images(make, taught):
    env = make(2, camera=Camera(32, 32))
    teacher = make_teacher(taught[1], torch.device("cpu"))
    teacher.reset(env)
    observation = {name: torch.as_tensor(values) for name, values in env.reset(seed=0)[0].items()}
    depth = observation["depth"] = torch.rand(2, 32, 32, 1)
    observation[TEACHER_FEATURES] = torch.zeros(2, teacher.num_features)
    observation[PREVIOUS_ACTION] = torch.zeros(2, dtype=torch.int64)
    teacher.act(observation, torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(observation[TEACHER_FEATURES], taught[0].encoder({"depth": depth[:, ::2, ::2]}))


def test_a_teacher_that_cannot_see_is_refused(make, taught):
    config = PPOConfig(num_steps=2, imitation_share=1.0, teacher=taught[1])
    for others, message in (
        ({"sensors": ("rgb",)}, "reads depth, which the environment lacks"),
        ({"sensors": ("rgb", "depth"), "camera": Camera(24, 24)}, "sees 16 x 16 pixels"),
    ):
        env = make(2, **others)
        with pytest.raises(ValueError, match=message):
            PPO(env, make_policy("compact", env.single_observation_space), config)
    with pytest.raises(ValueError, match="is neither a known name nor a file"):
        PPOConfig(teacher="nobody")


@pytest.mark.slow
def test_a_seeing_agent_comes_to_agree_with_the_expert(make):
    """PPO then continues in the same run."""
    env = make(32, actions=DiscreteActions(forward_step=0.5, turn_angle_deg=30))
    torch.manual_seed(0)
    policy = make_policy("small", env.single_observation_space)
    rollouts = {"num_steps": 16, "num_minibatches": 4, "num_epochs": 4, "imitation_share": 0.1}
    ppo = PPO(env, policy, PPOConfig(total_frames=10 * 10 * 32 * 16, optimizer="adamw", learning_rate=2e-3, **rollouts))
    reports = [ppo.iterate() for _ in range(11)]
    agreement = [report.losses["agreement"] for report in reports[:10]]
    assert agreement[0] < 0.5 and np.mean(agreement[-4:]) > 0.6
    assert "agreement" not in reports[10].losses and "policy" in reports[10].losses
