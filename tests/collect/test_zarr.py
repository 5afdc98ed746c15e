"""What is written is held to the zarr library's own reader."""

import io
import tarfile
from itertools import pairwise

import numpy as np
import pytest
from gathering import assert_same_arrays

from gym_batchnav.collect import zarr_format
from gym_batchnav.collect.api import SHARDS
from gym_batchnav.collect.folder import finished_shards
from gym_batchnav.collect.info import read_info
from gym_batchnav.collect.zarr_files import ArrayFiles, frames_per_chunk

zarr = pytest.importorskip("zarr", reason="zarr needs Python 3.11")


@pytest.mark.parametrize("num_frames", [1, 7, 64, 65, 200])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int32"])
def test_frames_are_read_by_zarr_and_by_us(tmp_path, num_frames, dtype):
    values = (np.random.default_rng(0).random((num_frames, 40, 90)) * 200).astype(dtype)
    files = ArrayFiles(1)
    cuts = sorted({0, num_frames // 3, num_frames // 2, num_frames})
    parts = [values[first:last] for first, last in pairwise(cuts)]
    names = ("frame", "y", "x")
    files.write_frames(tmp_path / "a", parts, num_frames, names)
    array = zarr.open_array(store=tmp_path / "a", mode="r")
    np.testing.assert_array_equal(array[:], values)
    np.testing.assert_array_equal(array[num_frames // 2 :], values[num_frames // 2 :])
    assert array.chunks[0] == frames_per_chunk(values[0].nbytes) and array.metadata.dimension_names == names
    for first, last in ((0, num_frames), (num_frames // 2, num_frames), (0, 1)):
        ours = files.read_frames(tmp_path / "a", values.shape, dtype, names, slice(first, last))
        np.testing.assert_array_equal(ours, values[first:last])


@pytest.mark.parametrize("values", [np.arange(5), np.array([True, False]), np.zeros((3, 2), np.float32), np.zeros(0)])
def test_small_arrays_are_read_by_zarr_and_by_us(tmp_path, values):
    files = ArrayFiles(3)
    files.write(tmp_path / "a", values, "xy"[: values.ndim])
    np.testing.assert_array_equal(zarr.open_array(store=tmp_path / "a", mode="r")[:], values)
    np.testing.assert_array_equal(files.read(tmp_path / "a", values.shape, values.dtype, "xy"[: values.ndim]), values)


def test_the_dataset_is_a_zarr_hierarchy(zarr_dataset):
    info = read_info(zarr_dataset)
    root = zarr.open_group(zarr_dataset, mode="r")
    assert root.attrs["num_episodes"] == 10 and root.attrs["collection"]["key"] == info.key
    for record in finished_shards(zarr_dataset, info):
        group = root[f"shards/{record.shard.name}"]
        ends = np.cumsum(np.asarray(group["num_steps"]) + 1)
        episodes = list(zarr_format.read_shard(zarr_dataset / SHARDS / record.shard.name, info, record))
        for one, end in zip(episodes, ends, strict=True):
            rows = slice(int(end) - one.num_steps - 1, int(end))
            named = {key: group["observations"][key][rows] for key in info.observation_space}
            assert_same_arrays(named, dict(one.observations))
            np.testing.assert_array_equal(group["actions"][rows][:-1], one.actions)


def test_tar_files_are_read_by_tarfile_and_numpy(tar_dataset, zarr_dataset):
    info = read_info(zarr_dataset)
    record = finished_shards(zarr_dataset, info)[0]
    first = next(zarr_format.read_shard(zarr_dataset / SHARDS / record.shard.name, info, record))
    with tarfile.open(tar_dataset / "episodes-000000.tar") as tar:
        names = tar.getnames()
        key = names[0].split(".")[0]
        assert [name.split(".")[0] for name in names[:12]] == [key] * 12
        for part in ("rgb", "depth"):
            found = np.load(io.BytesIO(tar.extractfile(f"{key}.{part}.npy").read()))
            np.testing.assert_array_equal(found, first.observations[part])
    assert len(list(tar_dataset.glob("episodes-*.tar"))) == 6
