"""Datasets of other libraries, written by their own writers and read back by them; nox -s lerobot minari rerun."""

import importlib.util
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from gathering import gather
from gymnasium.spaces import Dict
from libraries import REQUIRED

from gym_batchnav.collect.dataset import plain, read_info
from gym_batchnav.collect.export import minari as minari_export
from gym_batchnav.collect.export.convert import export_dataset
from gym_batchnav.collect.export.lerobot import check_video, features_of, instruction
from gym_batchnav.collect.folder import finished_shards
from gym_batchnav.collect.reading import read_episodes
from gym_batchnav.geometry import Camera, camera_to_world, camera_views
from gym_batchnav.system.extras import MissingExtraError

CAMERA = Camera(32, 20)  # LeRobot encodes nothing much smaller as videos
SEEN = {"sensors": ("rgb", "depth", "semantic"), "sensor_noise": None, "scenes": ["apartment_1"], "camera": CAMERA}


def needs(module):
    """Skip a test where a library is not installed, unless it is required."""
    absent = module not in REQUIRED and importlib.util.find_spec(module) is None
    return pytest.mark.skipif(absent, reason=f"{module} is not installed")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("seen") / "data"
    gather(out, **SEEN)
    return out


@pytest.fixture(scope="module")
def episodes(dataset):
    return list(read_episodes(dataset))


@needs("lerobot")
@pytest.mark.parametrize("video", [False, True])
def test_lerobot_reads_every_value(dataset, episodes, tmp_path, monkeypatch, video):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = export_dataset(dataset, tmp_path / "homes", "lerobot", video=video)
    assert (found.num_episodes, found.num_frames) == (5, sum(one.num_steps + 1 for one in episodes))
    rows = LeRobotDataset("local/homes", root=tmp_path / "homes", video_backend="pyav", depth_output_unit="m")
    assert (rows.num_episodes, rows.fps, rows.meta.depth_keys) == (5, 4, ["observation.images.depth"])
    index = 0
    for number, episode in enumerate(episodes):
        for step in range(episode.num_steps):
            row = rows[index]
            seen = {key: values[step] for key, values in episode.observations.items()}
            colours = np.moveaxis(row["observation.images.rgb"].numpy(), 0, -1) - seen["rgb"] / 255
            depth = np.moveaxis(row["observation.images.depth"].numpy(), 0, -1) - np.float32(10) * seen["depth"]
            assert np.abs(colours).mean() < 0.1 if video else np.abs(colours).max() < 1e-6
            assert np.abs(depth).mean() < 0.5 if video else not depth.any()
            np.testing.assert_array_equal(row["observation.semantic"].numpy(), seen["semantic"])
            goal = row["observation.pointgoal_with_gps_compass"].numpy()
            np.testing.assert_array_equal(goal, seen["pointgoal_with_gps_compass"])
            np.testing.assert_array_equal(row["observation.state"].numpy()[:3], episode.position[step])
            assert int(row["action"]) == episode.actions[step]
            assert float(row["next.reward"]) == np.float32(episode.rewards[step])
            assert bool(row["next.done"]) == (step == episode.num_steps - 1)
            assert row["task"] == instruction(episode, "PointNav") and int(row["episode_index"]) == number
            index += 1
    assert index == len(rows)
    about = json.loads((tmp_path / "homes" / "meta" / "gym_batchnav.json").read_text())
    assert about["scene_cards"]["apartment_1"]["episodes"] and len(about["episodes"]) == 5
    assert {**about["episodes"][3], "final": None} == {**episodes[3].about(), "final": None}


@needs("minari")
def test_minari_reads_every_value_and_recovers_the_environment(dataset, episodes, tmp_path, monkeypatch):
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    export_dataset(dataset, "homes/pointnav-v0", "minari")
    assert list(minari.list_local_datasets(compatible_minari_version=True)) == ["homes/pointnav-v0"]
    found = minari.load_dataset("homes/pointnav-v0")
    info = read_info(dataset)
    assert found.observation_space == info.observation_space and found.action_space == info.action_space
    assert found.total_steps == sum(one.num_steps for one in episodes)
    for one, episode in zip(found.iterate_episodes(), episodes, strict=True):
        for key, values in episode.observations.items():
            assert one.observations[key].dtype == values.dtype
            np.testing.assert_array_equal(one.observations[key], values)
        np.testing.assert_array_equal(one.actions, episode.actions)
        np.testing.assert_array_equal(one.rewards, episode.rewards)
        np.testing.assert_array_equal(one.terminations, episode.terminated)
        np.testing.assert_array_equal(one.truncations, episode.truncated)
        for name in ("position", "heading", "pitch", "goal"):
            np.testing.assert_array_equal(one.infos[name], getattr(episode, name))
        np.testing.assert_array_equal(one.infos["distance_to_goal"], episode.distance)
    known = [one["gym_batchnav"] for one in found.storage.get_episode_metadata(range(5))]
    assert known == [one.about() for one in episodes]
    env = found.recover_environment()
    observation, _ = env.reset(seed=0)
    assert env.observation_space == info.observation_space and env.observation_space.contains(observation)
    assert env.spec.max_episode_steps == 25
    env.close()


@needs("rerun")
def test_an_episode_is_a_recording_with_all_its_values(dataset, episodes, tmp_path):
    from recordings import Recorded

    export_dataset(dataset, tmp_path / "look", "rrd")
    paths = sorted((tmp_path / "look").iterdir())
    for path, episode in zip(paths, episodes, strict=True):
        found = Recorded(path)
        assert found.name == f"apartment_1 {episode.number}" and found.num_blueprints == 1
        frames = np.arange(episode.num_steps + 1)
        poses = camera_to_world(camera_views(CAMERA, episode.position, episode.heading, episode.pitch))
        np.testing.assert_array_equal(found.vectors("world/camera", "Transform3D:translation"), poses[:, :3, 3])
        np.testing.assert_array_equal(found.steps["/world/camera", "Transform3D:translation"], frames)
        np.testing.assert_array_equal(found.vectors("world/goal", "Points3D:positions"), episode.goal)
        seen = episode.observations
        np.testing.assert_array_equal(found.images("world/camera/rgb", "Image", np.uint8), seen["rgb"])
        depth = found.images("world/camera/depth", "DepthImage", np.float32)
        np.testing.assert_allclose(depth, 10 * seen["depth"], atol=1e-6)
        semantic = found.images("world/camera/semantic", "SegmentationImage", np.uint16)
        np.testing.assert_array_equal(semantic, seen["semantic"])
        np.testing.assert_array_equal(found.curve("reward/step")[1], episode.rewards)
        np.testing.assert_array_equal(found.curve("reward/step")[0], frames[1:])
        np.testing.assert_array_equal(found.curve("action")[1], episode.actions)
        np.testing.assert_array_equal(found.curve("measures/distance_to_goal")[1], episode.distance)
        key = ("/sensors/pointgoal_with_gps_compass", "Scalars:scalars")
        np.testing.assert_array_equal(found.rows[key], seen["pointgoal_with_gps_compass"])
        assert found.curve("ends/spl")[1].tolist() == [episode.measures["spl"]]


@pytest.mark.parametrize("to", ["lerobot", "minari", "rrd"])
def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it(dataset, tmp_path, monkeypatch, to):
    for module in ("lerobot", "lerobot.datasets.lerobot_dataset", "minari", "rerun"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f'pip install ".*{"rerun" if to == "rrd" else to}'):
        export_dataset(dataset, tmp_path / "out", to)
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_are_refused(dataset, tmp_path):
    out = tmp_path / "out"
    for source, folder, to, keywords, message in (
        (dataset, out, "hdf", {}, "to='hdf': choose one of lerobot, minari, rrd"),
        (dataset, out, "rrd", {"video": True}, "only lerobot has videos"),
        (dataset, tmp_path, "minari", {}, "exists: name a new folder"),
        (tmp_path, out, "minari", {}, r"has no collection\.json"),
    ):
        with pytest.raises(ValueError, match=message):
            export_dataset(source, folder, to, **keywords)


def test_lerobot_is_not_given_images_that_it_cannot_encode(dataset, zarr_dataset, tmp_path):
    with pytest.raises(ValueError, match="'depth' has 24 x 20 pixels, and LeRobot encodes at least 32 x 16: leave it"):
        export_dataset(zarr_dataset, tmp_path / "out", "lerobot", video=True)
    info = read_info(dataset)
    record = finished_shards(dataset, info)[0]
    check_video(info, [record])
    short = replace(record, episodes=(replace(record.episodes[0], num_steps=2),))
    with pytest.raises(ValueError, match="only 2 steps, and LeRobot encodes depth of at least 3: leave it out"):
        check_video(info, [short])
    colours = replace(info, observation_space=Dict(rgb=info.observation_space["rgb"]))
    check_video(colours, [short])


def test_lerobot_has_a_feature_for_every_value(dataset):
    info = read_info(dataset)
    features = features_of(info, video=True)
    assert features["observation.images.rgb"]["dtype"] == "video"
    assert features["observation.images.depth"]["info"] == {"is_depth_map": True, "depth_unit": "m"}
    assert (features["action"]["dtype"], features["action"]["shape"]) == ("int64", (1,))
    assert features["observation.semantic"]["dtype"] == "int32"  # LeRobot takes "image" in a name for an image
    goal = replace(info, observation_space=Dict(imagegoal=info.observation_space["rgb"]), images={})
    assert features_of(goal, video=False)["observation.images.imagegoal"]["dtype"] == "image"
    named = replace(info, observation_space=Dict(image_code=info.observation_space["depth"]), images={})
    with pytest.raises(ValueError, match="takes 'image_code' for an image because of its name"):
        features_of(named, video=False)
    plane = info.observation_space["depth"]
    for keys in (("front/rgb", "images.front.rgb"), ("state",)):
        other = replace(info, observation_space=Dict(dict.fromkeys(keys, plane)), images={"front/rgb": "rgb"})
        with pytest.raises(ValueError, match="two sensors would be called 'observation"):
            features_of(other, video=False)


def test_instructions_say_where_the_goal_is(episodes):
    one = replace(episodes[0], position=np.float32([[1, 0, 4]]), goal=np.float32([[1, 0, 2]]))
    for heading, words in (
        (0.0, "straight ahead"),
        (np.pi / 2, "90 degrees to the right"),
        (-1.0, "55 degrees to the left"),
        (3.1, "behind"),
    ):
        assert f"2.0 m away, {words}" in instruction(replace(one, heading=np.float32([heading])), "PointNav")
    assert instruction(replace(one, category="armchair"), "ObjectNav") == "Find an armchair and stop next to it."
    assert instruction(replace(one, goal=one.goal * np.nan), "Explore") == "Carry out the task Explore."


def test_recorded_keywords_come_back_and_name_no_other_classes():
    keywords = {"camera": Camera(20, 30, hfov_deg=70), "sensors": ("rgb",), "sliding": False, "protocol": None}
    assert minari_export.restored(plain(keywords), "env") == keywords
    for kind in ("os", "BatchNavEnv", "Popen"):
        with pytest.raises(ValueError, match=r"camera= was a .*: pass camera= yourself"):
            minari_export.restored({"type": kind, "command": "rm"}, "camera")
    with pytest.raises(ValueError, match="width='wide'"):
        minari_export.restored({"type": "Camera", "width": "wide"}, "camera")


def test_a_keyword_replaces_a_recorded_one_that_cannot_be_restored():
    recorded = {"episodes": {"type": "Episodes", "file": "gone.json.gz"}, "sensors": ["rgb"], "renderer": "embree"}
    given = {"scenes": "apartment_1", "episodes": 2, "sensors": ["depth"]}
    env = minari_export.make_recorded("PointNav", recorded, **given)
    assert {"depth"} == env.observation_space.spaces.keys() - {"pointgoal_with_gps_compass"}
    env.close()
