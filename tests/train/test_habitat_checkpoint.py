"""Habitat's DD-PPO checkpoints: the network is theirs, the world is theirs, and untrusted files are harmless."""

import argparse
import collections
import functools
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from torch.nn import functional as F  # noqa: E402

from gym_batchnav import BatchNavEnv, DiscreteActions  # noqa: E402
from gym_batchnav.protocols import PROTOCOLS  # noqa: E402
from gym_batchnav.train import habitat_checkpoint  # noqa: E402
from gym_batchnav.train.habitat_checkpoint import import_checkpoint, read_weights  # noqa: E402
from gym_batchnav.train.policy import GOAL, PREVIOUS_ACTION  # noqa: E402
from gym_batchnav.train.policy_agent import PolicyAgent  # noqa: E402
from gym_batchnav.train.policy_file import load_policy, save_policy  # noqa: E402

SIDE = 256
ENVS = 2
BLOCKS = (3, 4, 6, 3)
VISUAL = "net.visual_encoder."
MOMENTS = VISUAL + "running_mean_and_var."
HOSTILE = []  # what a file made this process do


@functools.cache
def habitat_weights(channels=1):
    """Random weights of Habitat's network by its names, written down from its layers."""
    generator = torch.Generator().manual_seed(0)
    found = collections.OrderedDict()

    def draw(name, *shape, std, mean=0.0):
        found[f"actor_critic.{name}"] = mean + std * torch.randn(*shape, generator=generator)

    def convolution(name, out, into, size):
        draw(f"{name}.weight", out, into, size, size, std=(2 / (into * size * size)) ** 0.5)

    def norm(name, width):
        draw(f"{name}.weight", width, std=0.2, mean=1.0)
        draw(f"{name}.bias", width, std=0.2)

    def linear(name, out, into):
        draw(f"{name}.weight", out, into, std=into**-0.5)
        draw(f"{name}.bias", out, std=0.2)

    draw("net.prev_action_embedding.weight", 5, 32, std=1.0)
    linear("net.tgt_embeding", 32, 3)
    if channels == 3:
        found[f"actor_critic.{MOMENTS}_mean"] = torch.rand(1, 3, 1, 1, generator=generator)
        found[f"actor_critic.{MOMENTS}_var"] = torch.tensor([0.04, 0.1, 0.003]).view(1, 3, 1, 1)  # the last is raised
        found[f"actor_critic.{MOMENTS}_count"] = torch.tensor(5e8)
    convolution(VISUAL + "backbone.conv1.0", 32, channels, 7)
    norm(VISUAL + "backbone.conv1.1", 32)
    into = 32
    for stage, count in enumerate(BLOCKS):
        planes = 32 * 2**stage
        for number in range(count):
            block = f"{VISUAL}backbone.layer{stage + 1}.{number}"
            sizes = ((planes, into, 1), (planes, planes, 3), (4 * planes, planes, 1))
            for place, (out, source, size) in enumerate(sizes):
                convolution(f"{block}.convs.{3 * place}", out, source, size)
                norm(f"{block}.convs.{3 * place + 1}", out)
            if number == 0:
                convolution(f"{block}.downsample.0", 4 * planes, into, 1)
                norm(f"{block}.downsample.1", 4 * planes)
            into = 4 * planes
    convolution(VISUAL + "compression.0", 128, 1024, 3)
    norm(VISUAL + "compression.1", 128)
    linear("net.visual_fc.1", 512, 128 * 4 * 4)
    for layer, size in enumerate((512 + 32 + 32, 512)):
        for name, width in (("ih", size), ("hh", 512)):
            draw(f"net.state_encoder.rnn.weight_{name}_l{layer}", 4 * 512, width, std=width**-0.5)
            draw(f"net.state_encoder.rnn.bias_{name}_l{layer}", 4 * 512, std=0.1)
    linear("action_distribution.linear", 4, 512)
    linear("critic.fc", 1, 512)
    return found


class Habitat:
    """The network, told again from its weights in functions alone."""

    def __init__(self, weights):
        self.weights = {name.removeprefix("actor_critic."): one for name, one in weights.items()}

    def norm(self, name, pictures, groups=16):
        return F.group_norm(pictures, groups, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-5)

    def convolve(self, name, pictures, stride=1, padding=0):
        return F.conv2d(pictures, self.weights[f"{name}.weight"], stride=stride, padding=padding)

    def linear(self, name, inputs):
        return F.linear(inputs, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def block(self, name, pictures, stride):
        hidden = F.relu(self.norm(f"{name}.convs.1", self.convolve(f"{name}.convs.0", pictures)))
        hidden = F.relu(self.norm(f"{name}.convs.4", self.convolve(f"{name}.convs.3", hidden, stride, 1)))
        hidden = self.norm(f"{name}.convs.7", self.convolve(f"{name}.convs.6", hidden))
        if f"{name}.downsample.0.weight" in self.weights:
            pictures = self.norm(f"{name}.downsample.1", self.convolve(f"{name}.downsample.0", pictures, stride))
        return F.relu(hidden + pictures)

    def features(self, pictures):
        """Features [N, 512] of images [N, C, 256, 256] from 0 to 1."""
        pictures = F.avg_pool2d(pictures, 2)
        if f"{MOMENTS}_var" in self.weights:
            spread = self.weights[f"{MOMENTS}_var"].clamp(min=0.01).sqrt()
            pictures = (pictures - self.weights[f"{MOMENTS}_mean"]) / spread
        pictures = F.relu(
            self.norm(VISUAL + "backbone.conv1.1", self.convolve(VISUAL + "backbone.conv1.0", pictures, 2, 3))
        )
        pictures = F.max_pool2d(pictures, 3, stride=2, padding=1)
        for stage, count in enumerate(BLOCKS):
            for number in range(count):
                stride = 2 if stage > 0 and number == 0 else 1
                pictures = self.block(f"{VISUAL}backbone.layer{stage + 1}.{number}", pictures, stride)
        pictures = F.relu(
            self.norm(VISUAL + "compression.1", self.convolve(VISUAL + "compression.0", pictures, 1, 1), 1)
        )
        return F.relu(self.linear("net.visual_fc.1", pictures.flatten(1)))

    def cell(self, layer, inputs, *state):
        names = (f"net.state_encoder.rnn.{name}_l{layer}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        return torch.lstm_cell(inputs, state, *(self.weights[name] for name in names))

    def step(self, pictures, goal, previous, mask, state):
        """Logits [N, 4], values [N] and state [4, N, 512]; the mask [N] is 0 where an episode begins."""
        state = state * mask[None, :, None]
        goal = torch.stack([goal[:, 0], torch.cos(-goal[:, 1]), torch.sin(-goal[:, 1])], dim=1)
        inputs = [
            self.features(pictures),
            self.linear("net.tgt_embeding", goal),
            F.embedding(((previous + 1) * mask).long(), self.weights["net.prev_action_embedding.weight"]),
        ]
        first, first_cell = self.cell(0, torch.cat(inputs, dim=1), state[0], state[2])
        second, second_cell = self.cell(1, first, state[1], state[3])
        state = torch.stack([first, second, first_cell, second_cell])
        return self.linear("action_distribution.linear", second), self.linear("critic.fc", second)[:, 0], state


def namespace():
    """Settings of the kind that public checkpoints hold beside their weights."""
    return argparse.Namespace(backbone="resnet50", hidden_size=512, rnn_type="LSTM", lr=2.5e-4, sensors=["depth"])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint of depth in the format of torch before 1.6, with settings."""
    path = tmp_path_factory.mktemp("habitat") / "depth.pth"
    stored = {"state_dict": habitat_weights(), "model_args": namespace()}
    torch.save(stored, path, _use_new_zipfile_serialization=False)
    return path


def saved(tmp_path, weights=None, **more):
    path = tmp_path / "a.pth"
    torch.save({"state_dict": habitat_weights() if weights is None else weights, **more}, path)
    return path


def observed(sensor, generator):
    """Random images of one step as the environment gives them, and as Habitat's network takes them."""
    if sensor == "depth":
        seen = torch.rand(ENVS, SIDE, SIDE, 1, generator=generator)
        return seen, seen.permute(0, 3, 1, 2)
    seen = torch.randint(0, 256, (ENVS, SIDE, SIDE, 3), generator=generator, dtype=torch.uint8)
    return seen, seen.permute(0, 3, 1, 2) / 255.0


@pytest.mark.parametrize("sensor", ["depth", "rgb"])
def test_logits_values_and_memory_are_those_of_habitats_network(sensor, checkpoint, tmp_path):
    weights = habitat_weights(1 if sensor == "depth" else 3)
    path = checkpoint if sensor == "depth" else saved(tmp_path, weights)
    save_policy(tmp_path / "policy.safetensors", *import_checkpoint(str(path)))
    policy, about = load_policy(tmp_path / "policy.safetensors")
    assert about.sensors == (sensor,) and about.kind == "ddppo-resnet50"
    habitat = Habitat(weights)
    generator = torch.Generator().manual_seed(1)
    state = torch.randn(4, ENVS, 512, generator=generator)
    expected_state = state
    previous = torch.tensor([3, 1])
    with torch.no_grad():
        for begun in ([True, False], [False, False], [False, True], [False, False]):
            seen, pictures = observed(sensor, generator)
            goal = torch.randn(ENVS, 2, generator=generator) * 3
            observation = {sensor: seen, GOAL: goal, PREVIOUS_ACTION: previous}
            begins = torch.tensor(begun)
            logits, values, state = policy(observation, state, begins)
            expected = habitat.step(pictures, goal, previous, (~begins).float(), expected_state)
            expected_state = expected[2]
            for one, other in zip((logits, values, state), expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
            previous = logits.argmax(-1)
        others, _, _ = policy({**observation, sensor: seen.flip(0)}, state, begins)
        again, _, _ = policy(observation, state, begins)
        assert (others - again).abs().max() > 1e-3  # the random weights let through what is seen


def test_the_world_is_that_of_habitats_pointnav(checkpoint, opened):
    policy, about = import_checkpoint(checkpoint)
    keywords = about.env_keywords()
    protocol = PROTOCOLS["pointnav-gibson-2019"].keywords()
    for name in ("task", "camera", "max_episode_steps", "geodesic", "sliding"):
        assert keywords[name] == protocol[name]
    assert keywords["camera"].depth_miss == "zero"
    assert keywords["actions"] == DiscreteActions(0.25, 10)
    env = opened(BatchNavEnv(ENVS, scenes=[box_room()], renderer="embree", episodes=4, **keywords))
    agent = PolicyAgent(policy, sample_seed=0, about=about)  # raises if the world is another one
    agent.reset(env)
    observation, _ = env.reset(seed=0)
    actions = agent.act(env, observation, np.ones(ENVS, bool))
    env.step(actions)
    assert observation["depth"].shape == (ENVS, SIDE, SIDE, 1) and set(actions.tolist()) <= {0, 1, 2, 3}


def test_names_without_the_trainers_prefix_and_rgb_without_moments_are_read(tmp_path):
    weights = {name.removeprefix("actor_critic."): one for name, one in habitat_weights(3).items()}
    weights = {name: one for name, one in weights.items() if not name.startswith(MOMENTS)}
    policy, _ = import_checkpoint(saved(tmp_path, weights))
    pictures = torch.rand(1, 4, 4, 3)
    assert torch.equal(policy.encoder.channels.moments(pictures), pictures)


def without(name):
    return lambda weights: weights.pop(name)


def with_one(name, value):
    return lambda weights: weights.update({name: value})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without(VISUAL + "backbone.conv1.0.weight"), "it has no weights 'net.visual_encoder.backbone.conv1.0.weight'"),
        (without("critic.fc.bias"), "it has no weights 'critic.fc.bias'"),
        (with_one(VISUAL + "backbone.conv1.0.weight", torch.zeros(32, 4, 7, 7)), "its images have 4 channels"),
        (with_one(VISUAL + "backbone.conv1.0.weight", torch.zeros(64, 1, 7, 7)), "has shape (64, 1, 7, 7), not (32,"),
        (with_one(VISUAL + "backbone.conv1.0.weight", torch.zeros(3)), "it has no weights"),
        (with_one(VISUAL + "backbone.layer1.0.se.excite.0.weight", torch.zeros(8, 128)), "it also has"),
        (with_one("action_distribution.linear.weight", torch.zeros(6, 512)), "has shape (6, 512), not (4, 512)"),
        (with_one("critic.fc.bias", torch.tensor([float("nan")])), "does not consist of finite numbers"),
        (with_one("critic.fc.bias", torch.zeros(1, dtype=torch.int64)), "does not consist of finite numbers"),
        (with_one("critic.fc.bias", torch.zeros(1).to_sparse()), "does not consist of finite numbers"),
        (with_one("critic.fc.bias", 3.0), "it has no weights 'critic.fc.bias'"),
        (with_one("critic.fc.weight", torch.zeros(1).expand(10**9, 512)), "has shape (1000000000, 512)"),
    ],
)  # fmt: skip
def test_other_networks_are_refused_with_the_difference(change, reason, monkeypatch):
    weights = {name.removeprefix("actor_critic."): one for name, one in habitat_weights().items()}
    change(weights)
    monkeypatch.setattr(habitat_checkpoint, "read_weights", lambda path: weights)
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        import_checkpoint(Path("a.pth"))
    assert "gibson-2plus-resnet50.pth" in str(caught.value)


def execute():
    HOSTILE.append("executed")


class Trap:
    """An object whose unpickling calls a function."""

    def __reduce__(self):
        return execute, ()


class Harmless:
    """An object of somebody's class."""


@pytest.mark.parametrize("is_zip", [True, False])
def test_more_than_weights_is_refused_with_the_remedy_and_nothing_is_executed(is_zip, tmp_path):
    for extra, message in (
        (Trap(), r"object of \S*\.execute, .*weights_only=False"),
        (Harmless(), r"object of \S*\.Harmless, .*weights_only=False"),
        (os.system, r"refers to \w+\.system, which no network needs"),
    ):
        torch.save({"config": extra, "state_dict": {}}, tmp_path / "a.pth", _use_new_zipfile_serialization=is_zip)
        with pytest.raises(ValueError, match=message):
            read_weights(tmp_path / "a.pth")
    assert HOSTILE == []


def test_files_that_are_no_checkpoints_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "b.pth"
    for data in (b"", b"PK", b"\x80\x02", b"glTF" * 100, pickle.dumps({"state_dict": {}})):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"b\.pth' is not a checkpoint that torch wrote"):
            read_weights(path)
    for stored in ([1], {"weights": {}}, {"state_dict": [1]}, {"state_dict": {3: torch.zeros(1)}}):
        torch.save(stored, path)
        with pytest.raises(ValueError, match="has no weights by name in 'state_dict'"):
            read_weights(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_weights(tmp_path / "none.pth")
    monkeypatch.setattr(habitat_checkpoint, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100"):
        read_weights(path)


def test_bombs_are_refused_before_they_take_memory(tmp_path, monkeypatch):
    good = saved(tmp_path, {"a": torch.zeros(3)})
    with zipfile.ZipFile(good) as archive:
        records = {one.filename: archive.read(one) for one in archive.infolist()}
    path = tmp_path / "bomb.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="is compressed"):
        read_weights(path)
    legacy = tmp_path / "legacy.pth"
    torch.save({"state_dict": {}}, legacy, _use_new_zipfile_serialization=False)
    start = habitat_checkpoint.LEGACY_START
    assert legacy.read_bytes().startswith(start)
    monkeypatch.setattr(habitat_checkpoint, "MAX_OPCODES", 10_000)
    many = b"\x80\x02" + b"]" * 20_000 + b"."
    legacy.write_bytes(start + many)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, many if name.endswith(".pkl") else data)
    for file in (legacy, path):
        with pytest.raises(ValueError, match="more than 10,000 steps"):
            read_weights(file)
    monkeypatch.setattr(habitat_checkpoint, "MAX_RECORDS", 3)
    with pytest.raises(ValueError, match="more than 3 records"):
        read_weights(good)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("is_zip", [True, False])
def test_damaged_files_are_refused_or_give_tensors(is_zip, tmp_path):
    """Bytes of a small file are changed, and its end is cut; storages never reach beyond the file."""
    path = tmp_path / "a.pth"
    weights = collections.OrderedDict(a=torch.arange(40.0), b=torch.zeros(3, 5))
    torch.save({"state_dict": weights, "args": namespace()}, path, _use_new_zipfile_serialization=is_zip)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for trial in range(150):
        data = bytearray(good)
        for _ in range(1 + trial % 3):
            data[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(data[: rng.integers(len(data))] if trial % 5 == 0 else data)
        try:
            found = read_weights(path)
        except ValueError:
            refused += 1
        else:
            assert all(one.numel() >= 0 for one in found.values() if isinstance(one, torch.Tensor))
    assert refused > 30


def test_torch_that_executes_pickles_is_refused(checkpoint, monkeypatch):
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.5.1"))
    with pytest.raises(ValueError, match=r"pip install 'torch>=2\.6'"):
        read_weights(checkpoint)
