"""Our Minari datasets, read by Minari."""

import gymnasium
import numpy as np
import pytest
import recorded
from libraries import require

from gym_batchnav.collect.info import plain
from gym_batchnav.collect.minari import Minari, space_json
from gym_batchnav.geometry import Camera

require("minari")

import minari  # noqa: E402
from minari.serialization import deserialize_space  # noqa: E402


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    style = Minari()
    recorded.write_dataset(
        tmp_path / "homes" / "pointnav-v0", style, recorded.make_info(style), recorded.make_episodes()
    )
    return minari.load_dataset("homes/pointnav-v0")


def test_every_value_is_read_back(dataset):
    episodes = recorded.in_order(recorded.make_episodes())
    assert (len(dataset), dataset.total_steps, dataset.spec.dataset_id) == (6, 37, "homes/pointnav-v0")
    for found, episode in zip(dataset.iterate_episodes(), episodes, strict=True):
        for key, values in episode.observations.items():
            assert found.observations[key].dtype == values.dtype
            assert np.array_equal(found.observations[key], values)
        assert np.array_equal(found.actions, episode.actions) and np.array_equal(found.rewards, episode.rewards)
        assert np.array_equal(found.terminations, episode.terminated)
        assert np.array_equal(found.truncations, episode.truncated)
        assert np.array_equal(found.infos["position"], episode.position)
        assert np.array_equal(found.infos["distance_to_goal"], episode.distance)


def test_listed_sampled_filtered_and_split(dataset):
    assert list(minari.list_local_datasets(compatible_minari_version=True)) == ["homes/pointnav-v0"]
    assert dataset[4].id == 4 and len(dataset.sample_episodes(3)) == 3
    succeeded = dataset.filter_episodes(lambda episode: bool(episode.terminations[-1]))
    assert succeeded.episode_indices.tolist() == [0, 2, 4] and succeeded.total_steps == 24
    about = [one["gym_batchnav"]["scene"] for one in dataset.storage.get_episode_metadata(range(6))]
    assert about == ["attic"] * 4 + ["cellar"] * 2
    assert [len(one) for one in minari.split_dataset(dataset, [2, 4], seed=0)] == [2, 4]


def test_spaces(dataset):
    info = recorded.make_info(Minari())
    assert dataset.observation_space == info.observation_space and dataset.action_space == info.action_space
    for space in (gymnasium.spaces.MultiBinary(3), gymnasium.spaces.MultiDiscrete([2, 3])):
        assert deserialize_space(space_json(space)) == space


def test_the_environment_is_recovered(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    style = Minari()
    keywords = {"sensors": ("depth",), "episodes": 4, "max_episode_steps": 30, "camera": Camera(24, 20)}
    env = gymnasium.make("BatchNav/PointNav-v0", scenes=["apartment_0"], **keywords)
    info = recorded.make_info(
        style, env=plain(keywords), scenes=("apartment_0",), observation_space=env.observation_space
    )
    env.close()
    episode = recorded.make_episode("apartment_0", 0, 3)
    observations = {
        key: np.zeros((4, *space.shape), space.dtype) for key, space in info.observation_space.spaces.items()
    }
    object.__setattr__(episode, "observations", observations)
    recorded.write_dataset(tmp_path / "x-v0", style, info, {("apartment_0", 0): episode}, [("apartment_0", 0, 1)])
    found = minari.load_dataset("x-v0").recover_environment()
    try:
        observation, _ = found.reset(seed=0)
        assert found.observation_space == info.observation_space and found.observation_space.contains(observation)
        assert found.spec.max_episode_steps == 30
    finally:
        found.close()
