"""Our LeRobot datasets, read by LeRobot: version 3.0 as it is, version 2.1 through LeRobot's converter."""

import numpy as np
import pytest
import recorded
from libraries import require

from gym_batchnav.collect.lerobot import LeRobot
from gym_batchnav.collect.lerobot.features import instruction

require("lerobot")

from lerobot.datasets.compute_stats import compute_episode_stats, get_feature_stats  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from lerobot.scripts import convert_dataset_v21_to_v30 as converter  # noqa: E402

CASES = [
    ({"rgb": "lossless"}, False),
    ({"rgb": "images"}, True),
    ({"rgb": "h264", "depth": "uint16"}, False),
    ({"rgb": "images", "depth": "video"}, True),
]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def written(root, metres, **options):
    style = LeRobot(**options)
    episodes = recorded.make_episodes(metres=metres)
    recorded.write_dataset(root, style, recorded.make_info(style, metres), episodes)
    return recorded.in_order(episodes)


def opened(root, **keywords):
    return LeRobotDataset("local/ours", root=root, video_backend="pyav", depth_output_unit="m", **keywords)


def channels_first(values):
    return np.moveaxis(values, -1, 0)


@pytest.mark.parametrize(("options", "metres"), CASES)
def test_every_value_is_read_back(tmp_path, options, metres):
    episodes = written(tmp_path, metres, **options)
    dataset = opened(tmp_path)
    assert (dataset.num_episodes, len(dataset), dataset.fps) == (6, 37, 10)
    assert dataset.meta.depth_keys == ["observation.images.depth"]
    index = 0
    for number, episode in enumerate(episodes):
        for step in range(episode.num_steps):
            assert_row(dataset[index], episode, step, options, metres)
            assert (int(dataset[index]["index"]), int(dataset[index]["episode_index"])) == (index, number)
            index += 1


def assert_row(row, episode, step, options, metres):
    sensed = {key: values[step] for key, values in episode.observations.items()}
    colours = row["observation.images.rgb"].numpy() - channels_first(sensed["rgb"]) / 255
    assert np.abs(colours).max() < 1e-6 if options["rgb"] != "h264" else np.abs(colours).mean() < 0.05
    depth = row["observation.images.depth"].numpy()
    wanted = channels_first(sensed["depth"])
    if options.get("depth", "float32") == "float32":
        assert depth.dtype == np.float32 and np.array_equal(depth, wanted)
    else:
        in_metres = wanted if metres else wanted * 10
        step_size = 0.001 if options["depth"] == "uint16" else 10 / 4095
        reachable = np.clip(in_metres, 0, 10 if options["depth"] == "video" else 65)
        assert np.abs(depth - reachable).max() < step_size / 2 + 1e-5
    assert np.array_equal(row["observation.images.rear.semantic"].numpy(), channels_first(sensed["rear/semantic"]))
    assert np.array_equal(row["observation.normals"].numpy(), sensed["normals"])
    assert np.array_equal(row["observation.pointgoal_with_gps_compass"].numpy(), sensed["pointgoal_with_gps_compass"])
    assert int(row["action"]) == episode.actions[step] and float(row["next.reward"]) == np.float32(
        episode.rewards[step]
    )
    assert bool(row["next.done"]) == (step == episode.num_steps - 1)
    assert row["task"] == instruction(episode, "PointNav")


def test_windows_and_chosen_episodes(tmp_path):
    episodes = written(tmp_path, False, rgb="lossless")
    windows = opened(tmp_path, delta_timestamps={"observation.images.rgb": [-0.1, 0.0], "action": [0.0, 0.1]})
    row = windows[9]  # episode 2, step 1
    wanted = [channels_first(one) / 255 for one in episodes[2].observations["rgb"][:2]]
    assert np.abs(row["observation.images.rgb"].numpy() - np.stack(wanted)).max() < 1e-6
    assert row["action"].tolist() == episodes[2].actions[1:3].tolist()
    chosen = opened(tmp_path, episodes=[4])
    assert len(chosen) == 5 and chosen[0]["observation.state"].tolist()[:3] == episodes[4].position[0].tolist()


def test_version_21_is_converted(tmp_path):
    episodes = written(tmp_path / "old", False, version="2.1", rgb="lossless")
    converted = tmp_path / "new"
    converter.convert_info(tmp_path / "old", converted, 100, 200)
    converter.convert_tasks(tmp_path / "old", converted)
    rows = converter.convert_data(tmp_path / "old", converted, 100)
    videos = converter.convert_videos(tmp_path / "old", converted, 200)
    converter.convert_episodes_metadata(tmp_path / "old", converted, rows, videos)
    dataset = opened(converted)
    assert (dataset.num_episodes, len(dataset)) == (6, 37)
    index = 0
    for episode in episodes:
        for step in range(episode.num_steps):
            assert_row(dataset[index], episode, step, {"rgb": "lossless"}, False)
            index += 1


def test_statistics_are_those_of_lerobot(tmp_path):
    episodes = written(tmp_path, True, rgb="images")
    meta = opened(tmp_path).meta
    rewards = np.concatenate([one.rewards for one in episodes])
    theirs = compute_episode_stats({"next.reward": rewards}, {"next.reward": {"dtype": "float64", "shape": (1,)}})
    for name in ("min", "max", "mean", "std", "count"):
        assert np.allclose(meta.stats["next.reward"][name], theirs["next.reward"][name])
    images = np.moveaxis(np.concatenate([one.observations["rgb"][:-1] for one in episodes]), -1, 1)
    theirs = get_feature_stats(images, axis=(0, 2, 3), keepdims=True)
    for name, value in meta.stats["observation.images.rgb"].items():
        if name != "count":
            assert value.shape == (3, 1, 1)
        if name in ("min", "max", "mean", "std"):
            assert np.allclose(value, np.squeeze(theirs[name], 0) / 255, atol=0.02)
