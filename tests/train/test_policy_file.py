"""Policy files: the same policy comes back, and a stranger's file can do no harm."""

import dataclasses
import json
import resource

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from safetensors import safe_open  # noqa: E402
from safetensors.numpy import save as pack_arrays  # noqa: E402

from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.train.policy import PREVIOUS_ACTION, make_policy  # noqa: E402
from gym_batchnav.train.policy_file import PolicyAbout, load_policy, save_policy  # noqa: E402


def about_of(kind="small", sensors=("depth", "rgb"), camera=None, **changes):
    about = PolicyAbout(kind, sensors, camera or Camera(24, 16, hfov_deg=80), 0.25, 10.0, 500, "cpu", 123, 4)
    return dataclasses.replace(about, **changes)


@pytest.mark.parametrize(
    ("kind", "sensors"), [("small", ("depth", "rgb")), ("small", ("depth",)), ("blind", ()), ("paper", ("rgb",))]
)
def test_the_same_policy_comes_back(kind, sensors, tmp_path):
    about = about_of(kind, sensors)
    policy = make_policy(kind, about.observation_space())
    with torch.no_grad():
        for buffer in policy.buffers():
            buffer.add_(1)
    save_policy(tmp_path / "a.safetensors", policy, about)
    before = torch.get_rng_state()
    loaded, said = load_policy(tmp_path / "a.safetensors")
    assert said == about
    assert torch.equal(torch.get_rng_state(), before), "loading drew random numbers"

    space = about.observation_space()
    space.seed(0)
    rows = [space.sample() for _ in range(3)]
    observation = {name: torch.as_tensor(np.stack([row[name] for row in rows])) for name in space.spaces}
    observation["pointgoal_with_gps_compass"] = torch.randn(3, 2)
    observation[PREVIOUS_ACTION] = torch.tensor([0, 1, 2])
    begun = torch.tensor([True, False, False])
    state = torch.randn_like(policy.initial_state(3))
    for one, other in zip(policy(observation, state, begun), loaded(observation, state, begun), strict=True):
        assert torch.equal(one, other)
    loaded(observation, state, begun)[0].sum().backward()  # it can be trained on


def test_the_description_makes_an_environment_that_fits():
    keywords = about_of(forward_step=0.5, max_episode_steps=60).env_keywords()
    assert keywords == {
        "sensors": ("depth", "rgb"), "camera": Camera(24, 16, hfov_deg=80), "forward_step": 0.5,
        "turn_angle_deg": 10.0, "max_episode_steps": 60,
    }  # fmt: skip


def changed(path, described=None, arrays=None):
    """Write a policy file again with another description or other arrays."""
    with safe_open(path, framework="np") as file:
        header, found = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    header["about"] = json.dumps({**json.loads(header["about"]), **(described or {})})
    path.write_bytes(pack_arrays({**found, **(arrays or {})}, header))


@pytest.fixture
def path(tmp_path):
    path, about = tmp_path / "a.safetensors", about_of("small", ("depth",), Camera(16, 16))
    save_policy(path, make_policy("small", about.observation_space()), about)
    return path


@pytest.mark.parametrize(
    "described",
    [
        {"kind": "large"}, {"kind": ["small"]}, {"kind": "paper"}, {"kind": "blind"}, {"sensors": "depth"},
        {"sensors": ["smell"]}, {"sensors": 3}, {"sensors": []}, {"camera": {"width": 0}}, {"camera": {"zoom": 2}},
        {"camera": 5}, {"camera": {"width": "16"}}, {"camera": {"width": 16.5}}, {"forward_step": -1},
        {"forward_step": "far"}, {"turn_angle_deg": float("nan")}, {"max_episode_steps": 1.5}, {"extra": 1},
        {"frames": "many"}, {"preset": 7}, {"seed": None},
    ],
)  # fmt: skip
def test_descriptions_that_cannot_be_are_damage(described, path):
    changed(path, described)
    with pytest.raises(ValueError, match=r"policy file '.*a\.safetensors' is damaged"):
        load_policy(path)


def test_weights_of_another_shape_kind_or_number_are_damage(path):
    good = path.read_bytes()
    for name, array in (("0", np.zeros(3, np.float32)), ("0", np.zeros((5, 32))), ("1", np.zeros(96, np.int32))):
        path.write_bytes(good)
        changed(path, arrays={name: array})
        with pytest.raises(ValueError, match="is damaged: its weights are not those of a 'small' policy"):
            load_policy(path)


def test_a_description_of_something_huge_takes_no_memory(path):
    changed(path, {"camera": {"width": 4096, "height": 4096}})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="its weights are not those"):
        load_policy(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # kilobytes
