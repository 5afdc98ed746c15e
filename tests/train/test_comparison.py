"""Comparisons: every agent gets its sensors, and what cannot act is refused before any episode."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from gym_batchnav import BatchNavEnv, DiscreteActions  # noqa: E402
from gym_batchnav.evaluation.agents import env_keywords_of  # noqa: E402
from gym_batchnav.evaluation.comparison import Asked, make_comparison  # noqa: E402
from gym_batchnav.evaluation.world import policy_about  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.mapping.sensors import MapPath  # noqa: E402
from gym_batchnav.noise.depth import RedwoodNoise  # noqa: E402
from gym_batchnav.noise.timing import SensorTiming  # noqa: E402
from gym_batchnav.task.sensors import Heading, WalkScan  # noqa: E402
from gym_batchnav.train.policy import GOAL, make_policy  # noqa: E402
from gym_batchnav.train.policy_agent import PolicyAgent, load_agent  # noqa: E402
from gym_batchnav.train.policy_file import load_policy, save_policy  # noqa: E402

SCENE = "apartment_4"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the file of an untrained policy and returns its path."""

    def write(name, kind, sensors, **keywords):
        small = {"camera": Camera(16, 16), "max_episode_steps": 8}
        env = BatchNavEnv(1, scenes=SCENE, sensors=sensors, **small, **keywords)
        policy = make_policy(kind, env.single_observation_space)
        path = tmp_path / f"{name}.safetensors"
        save_policy(path, policy, policy_about(env, kind, "cpu", 1, 0))
        env.close()
        return str(path)

    return write


def compared(policy, *agents, **asked):
    return make_comparison(
        Asked((policy,), agents=agents, scenes=(SCENE,), episodes=1, num_envs=1, **asked), load_agent
    )


def test_a_policy_beside_another_gets_its_sensors(opened, write):
    depth = write("depth", "small", ("depth",))
    others = {
        "scan.safetensors": write("scan", "scan", (WalkScan(8),)),
        "mapped.safetensors": write("mapped", "small", ("depth", "rgb", MapPath(0.2))),
    }
    comparison = opened(compared(depth, *others.values()))
    assert set(comparison.env.single_observation_space.spaces) >= {"depth", "rgb", "map_path", "walk_scan"}
    assert comparison.keywords["sensors"] == ("depth", WalkScan(8), "rgb", MapPath(0.2))
    comparison.run()
    assert set(comparison.results) == {"policy", *others}


def test_a_policy_that_cannot_act_is_refused_before_any_episode(write):
    near = write("near", "small", ("depth", MapPath()))
    fine = write("fine", "small", ("depth", MapPath(0.2)))
    far = write("far", "small", ("depth",), actions=DiscreteActions(0.5))
    with pytest.raises(ValueError, match=r"agent 'fine\.safetensors' cannot act .*map_path\.cell_size is 0\.15"):
        compared(near, fine)
    with pytest.raises(ValueError, match=r"agent 'far\.safetensors' cannot act .*forward_step is 0\.25"):
        compared(near, far)


def test_noise_and_timing_of_images_are_left_out_where_there_are_none(opened, write):
    timing = {"depth": SensorTiming(latency=1), "map_path": SensorTiming(latency=1), "heading": SensorTiming(latency=2)}
    noisy = {"sensor_noise": {"depth": RedwoodNoise()}, "sensor_timing": timing}
    policy = write("noisy", "small", ("depth", MapPath(), Heading()), **noisy)
    comparison = opened(compared(policy, "random"))
    assert set(comparison.env.single_observation_space.spaces) == {"depth", "map_path", "heading", GOAL}
    assert comparison.env.config.sensor_timing == timing
    assert set(comparison.blind_env.single_observation_space.spaces) == {"heading", GOAL}
    assert comparison.blind_env.config.sensor_timing == {"heading": timing["heading"]}
    comparison.run()


def test_a_blind_policy_keeps_the_sensors_that_read_no_images(opened, write, monkeypatch):
    depth = write("depth", "small", ("depth", Heading()))
    blind = write("blind", "blind", (Heading(),))
    for module in ("comparison", "named_agents"):
        shipped = {"pointnav_blind": Path(blind)}
        monkeypatch.setattr(f"gym_batchnav.evaluation.{module}.shipped_policies", lambda: shipped)  # noqa: B023
    comparison = opened(compared(depth, "blind"))
    comparison.run()
    assert set(comparison.results) == {"policy", "blind"}


def test_the_agent_of_a_file_says_which_sensors_it_reads(write):
    policy, about = load_policy(write("mapped", "small", ("rgb", "depth", MapPath(), Heading())))
    assert env_keywords_of(PolicyAgent(policy, about=about)) == {"sensors": ("depth", "rgb", MapPath(), Heading())}
    assert PolicyAgent(policy).env_keywords == {}
    blind, about = load_policy(write("blind", "blind", ("depth", Heading())))
    assert PolicyAgent(blind, about=about).env_keywords == {"sensors": (Heading(),)}
