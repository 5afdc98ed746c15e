"""What the formats write is what the batch saw, for the libraries that others read it with."""

import io
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from gathering import SCENES, assert_same_arrays, gather
from gymnasium.spaces import Box, Dict

from gym_batchnav import Camera
from gym_batchnav.collect import zarr_format
from gym_batchnav.collect.dataset import PER_ACTION, PER_FRAME, SHARDS, make_shard, read_info
from gym_batchnav.collect.folder import finished_shards, prepare_folder, write_shard
from gym_batchnav.collect.merge import check_dataset
from gym_batchnav.collect.reading import read_episodes
from gym_batchnav.collect.webdataset import WebDataset

zarr = pytest.importorskip("zarr", reason="zarr needs Python 3.11")


def test_the_formats_hold_the_same(zarr_dataset, tar_dataset):
    for one, other in zip(read_episodes(zarr_dataset), read_episodes(tar_dataset), strict=True):
        assert_same_arrays(dict(one.observations), dict(other.observations))
        for name in (*PER_FRAME, *PER_ACTION):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert one.about() == other.about()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("depth", "far away"), "sensor 'far away' has a name that no file can have"),
        (("front/depth", "front_depth"), "sensor 'front/depth' would be stored as 'front_depth', like other data"),
        (("depth", "rewards"), "sensor 'rewards' would be stored as 'rewards', like other data"),
    ],
)
def test_a_sensor_whose_name_a_tar_file_cannot_have_is_named(tar_dataset, names, message):
    info = replace(read_info(tar_dataset), observation_space=Dict({name: Box(0, 1) for name in names}))
    with pytest.raises(ValueError, match=message):
        WebDataset().check(info)


def test_a_tar_file_has_names_of_any_length(tar_dataset, tmp_path):
    info = read_info(tar_dataset)
    key = "a_camera_with_a_long_name/depth"
    info = replace(info, observation_space=Dict({key: info.observation_space["depth"]}))
    episode = next(read_episodes(tar_dataset))
    episode = replace(episode, observations={key: episode.observations["depth"]})
    shard = make_shard(info.key, "scene" * 12, episode.number, 1)
    prepare_folder(tmp_path)
    record = write_shard(tmp_path, WebDataset(), info, shard, [episode], {})
    (found,) = WebDataset().read(tmp_path / SHARDS / shard.name, info, record)
    np.testing.assert_array_equal(found.observations[key], episode.observations[key])


def test_the_dataset_is_a_zarr_hierarchy(zarr_dataset):
    info = read_info(zarr_dataset)
    root = zarr.open_group(zarr_dataset, mode="r")
    assert root.attrs["num_episodes"] == 10 and root.attrs["collection"]["key"] == info.key
    episodes = read_episodes(zarr_dataset)
    for record in finished_shards(zarr_dataset, info):
        group = root[f"shards/{record.shard.name}"]
        ends = np.cumsum(np.asarray(group["num_steps"]) + 1)
        for end in ends:
            one = next(episodes)
            rows = slice(int(end) - one.num_steps - 1, int(end))
            named = {key: group["observations"][key][rows] for key in info.observation_space}
            assert_same_arrays(named, dict(one.observations))
            np.testing.assert_array_equal(group["actions"][rows][:-1], one.actions)
            assert group["actions"][int(end) - 1] == 0


def test_images_of_several_cameras_in_many_small_files(tmp_path, monkeypatch):
    """Episodes begin and end anywhere in chunks and files."""
    cameras = {"front": Camera(24, 20), "rear": Camera(24, 20, yaw_deg=180)}
    keywords = {"camera": cameras, "sensors": ("depth",), "sensor_noise": None, "scenes": SCENES[:1]}
    keywords["episodes_per_scene"] = 3
    gather(tmp_path / "whole", **keywords)
    monkeypatch.setattr(zarr_format, "_CHUNK_BYTES", 4 * 24 * 20 * 4)
    monkeypatch.setattr(zarr_format, "_FILE_BYTES", 3 * 4 * 24 * 20 * 4)
    gather(tmp_path / "cut", **keywords)
    shards = sorted((tmp_path / "cut" / "shards").iterdir())
    assert len(list(shards[0].glob("observations/front/depth/c/*"))) > 2
    for one, other in zip(read_episodes(tmp_path / "whole"), read_episodes(tmp_path / "cut"), strict=True):
        assert set(one.observations) >= {"front/depth", "rear/depth"}
        assert_same_arrays(dict(one.observations), dict(other.observations))
    assert not check_dataset(tmp_path / "cut").missing


def test_tar_files_are_read_by_tarfile_and_numpy(tar_dataset):
    first = next(read_episodes(tar_dataset))
    with tarfile.open(tar_dataset / "episodes-000000.tar") as tar:
        names = tar.getnames()
        key = names[0].split(".")[0]
        assert [name.split(".")[0] for name in names[:12]] == [key] * 12
        for part in ("rgb", "depth"):
            found = np.load(io.BytesIO(tar.extractfile(f"{key}.{part}.npy").read()))
            np.testing.assert_array_equal(found, first.observations[part])
    assert len(list(tar_dataset.glob("episodes-*.tar"))) == 6
