"""Datasets from strangers: damaged, swapped, too large, or with paths that lead outside."""

import hashlib
import json
import shutil
import struct
from dataclasses import replace

import numpy as np
import pytest
from gathering import SCENES, gather
from gymnasium.spaces import Box, Dict

from gym_batchnav.collect.dataset import RECORD, SHARDS, read_info, to_json
from gym_batchnav.collect.merge import check_dataset, merge_datasets
from gym_batchnav.collect.webdataset import TAR


@pytest.fixture
def zarr_copy(zarr_dataset, tmp_path):
    return shutil.copytree(zarr_dataset, tmp_path / "copy")


@pytest.fixture
def tar_copy(tar_dataset, tmp_path):
    return shutil.copytree(tar_dataset, tmp_path / "copy")


@pytest.fixture(params=["zarr_copy", "tar_copy"])
def dataset(request):
    return request.getfixturevalue(request.param)


def shard_of(dataset):
    return sorted((dataset / SHARDS).glob("*/shard.json"))[1].parent


def forge(shard, file, data):
    """Replace a file and make the record agree, as a stranger would."""
    (shard / file).write_bytes(data)
    record = json.loads((shard / RECORD).read_text())
    record["files"][file] = [len(data), hashlib.sha256(data).hexdigest()]
    (shard / RECORD).write_text(json.dumps(record))


def change(path, **values):
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, **values}))


def test_a_good_dataset_has_no_faults(dataset):
    found = check_dataset(dataset)
    assert not found.missing and len(found.shards) == 6
    shutil.rmtree(shard_of(dataset))
    assert len(check_dataset(dataset).missing) == 1


def test_damaged_and_further_files_are_named(dataset):
    shard = shard_of(dataset)
    large = max((path for path in shard.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    data = bytearray(large.read_bytes())
    data[len(data) // 2] ^= 1
    large.write_bytes(data)
    with pytest.raises(ValueError, match=f"{large.name}' is damaged"):
        check_dataset(dataset)
    forge(shard, large.relative_to(shard).as_posix(), bytes(data[: len(data) // 2]))
    with pytest.raises(ValueError, match="is damaged"):
        check_dataset(dataset)
    (shard / "more").write_bytes(b"")
    with pytest.raises(ValueError, match="more' is missing or unexpected"):
        check_dataset(dataset)


def test_links_and_paths_outside_are_refused(dataset, tmp_path):
    shard = shard_of(dataset)
    (tmp_path / "secret").write_bytes(b"secret")
    (shard / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="is neither a file nor a folder"):
        check_dataset(dataset)
    (shard / "link").unlink()
    record = json.loads((shard / RECORD).read_text())
    change(shard / RECORD, files={**record["files"], "../../../secret": [6, hashlib.sha256(b"secret").hexdigest()]})
    with pytest.raises(ValueError, match="secret' is missing or unexpected"):
        check_dataset(dataset)
    shutil.move(shard, tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link"):
        check_dataset(dataset)


@pytest.mark.parametrize(
    "values",
    [
        {"key": "0"},
        {"episodes": []},
        {"shard": {"name": "../..", "scene": "apartment_1", "first": 0, "count": 2}},
        {"shard": {"name": "a", "scene": "b", "first": -1, "count": 10**12}},
        {"shard": {"name": "a", "scene": None, "first": 2, "count": 2}},
        {"files": {"a": [1]}},
        {"scene_card": {"name": "other"}},
        {"files": 3},
    ],
)
def test_wrong_records_are_refused(tar_copy, values):
    change(shard_of(tar_copy) / RECORD, **values)
    with pytest.raises(ValueError, match="shard"):
        check_dataset(tar_copy)


@pytest.mark.parametrize("steps", [0, 10**7, 24, float("nan")])
def test_other_lengths_of_episodes_are_refused(dataset, steps):
    path = shard_of(dataset) / RECORD
    episodes = json.loads(path.read_text())["episodes"]
    episodes[0]["num_steps"] = steps if steps != episodes[0]["num_steps"] else 23
    change(path, episodes=episodes)
    with pytest.raises(ValueError, match="shard"):
        check_dataset(dataset)


def test_compressed_data_that_would_fill_memory_is_refused(zarr_copy, tmp_path):
    """A chunk that unpacks to more than the array holds is refused before memory is taken, and is not merged."""
    from numcodecs.zstd import Zstd

    shard = shard_of(zarr_copy)
    frames = "observations/rgb/c/0/0/0/0"
    before = (shard / frames).read_bytes()
    bomb = Zstd(1).encode(bytes(2**26))
    forge(shard, frames, bomb + struct.pack("<QQI", 0, len(bomb), 0))
    with pytest.raises(ValueError, match="a chunk does not unpack to its size"):
        merge_datasets(tmp_path / "all", [zarr_copy])  # the checksums are right, and only reading it shows what it is
    assert not (tmp_path / "all").exists()
    forge(shard, frames, struct.pack("<QQI", 0, 2**60, 0))
    with pytest.raises(ValueError, match="its index of chunks does not fit"):
        check_dataset(zarr_copy)
    forge(shard, frames, before[:-4] + bytes(4))
    with pytest.raises(ValueError, match="is damaged"):  # the checksum of the index
        check_dataset(zarr_copy)
    forge(shard, frames, before)
    check_dataset(zarr_copy)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [10**9, 20, 24, 3]},
        {"data_type": "float64"},
        {"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]},
        {"chunk_grid": 3},
        {"fill_value": None},
        {"data_type": 5000 * "x"},
    ],
    ids=lambda change: str(change)[:40],
)
def test_arrays_of_another_form_are_refused(zarr_copy, change):
    shard = shard_of(zarr_copy)
    name = "observations/rgb/zarr.json"
    forge(shard, name, json.dumps({**json.loads((shard / name).read_text()), **change}).encode())
    with pytest.raises(ValueError, match=r"rgb/zarr.json' does not describe") as raised:
        check_dataset(zarr_copy)
    assert len(str(raised.value)) < 1000 + len(str(zarr_copy))


def test_rows_of_a_missing_file_are_not_zeros(zarr_copy):
    shard = shard_of(zarr_copy)
    (shard / "heading/c/0").unlink()
    record = json.loads((shard / RECORD).read_text())
    del record["files"]["heading/c/0"]
    (shard / RECORD).write_text(json.dumps(record))
    with pytest.raises(ValueError, match="heading/c/0' is missing"):
        check_dataset(zarr_copy)


def test_headers_of_arrays_that_are_no_literals_are_refused(tar_copy):
    """Those of .npy files are parsed, by a tokenizer with errors of its own."""
    shard = shard_of(tar_copy)
    data = (shard / TAR).read_bytes()
    begin = data.index(b"{'descr'")
    forge(shard, TAR, data[:begin] + b"(((" + data[begin + 3 :])
    with pytest.raises(ValueError, match=r"episodes.tar' is damaged \(.* is not an array"):
        check_dataset(tar_copy)


def box(*shape):
    return {"type": "Box", "low": 0, "high": 1, "shape": shape, "dtype": "<f4"}


@pytest.mark.parametrize(
    "values",
    [
        {"seed": 8},
        {"key": "0123456789abcdef"},
        {"observation_space": {"a": box(2**40)}},
        {"observation_space": {"a": {**box(2), "dtype": "O"}}},
        {"observation_space": {f"sensor_{number}": box(2**24) for number in range(5)}},
        {"episodes_per_scene": 10**12},
        {"episodes_per_shard": 0},
        {"scenes": 3},
    ],
)
def test_wrong_descriptions_are_refused(tar_copy, values):
    change(tar_copy / "collection.json", **values)
    with pytest.raises(ValueError, match=r"collection.json'.*(does not describe|was changed)"):
        check_dataset(tar_copy)


def test_observations_that_could_not_be_read_back_are_not_written(zarr_dataset):
    info = read_info(zarr_dataset)
    with pytest.raises(ValueError, match="too large to collect: choose a smaller camera="):
        to_json(replace(info, observation_space=Dict(rgb=Box(0, 255, (2400, 2400, 3), np.uint8))))


def test_what_does_not_fit_is_not_merged(dataset, tmp_path):
    gather(tmp_path / "other", seed=8, scenes=SCENES[:1])
    with pytest.raises(ValueError, match=r"other settings .*seed: 8 instead of 7|other settings .*format"):
        merge_datasets(tmp_path / "all", [dataset, tmp_path / "other"])
    assert not (tmp_path / "all").exists()
    with pytest.raises(ValueError, match="is one of the datasets"):
        merge_datasets(dataset, [dataset])
    with pytest.raises(ValueError, match=r"has no collection\.json"):
        merge_datasets(tmp_path / "all", [tmp_path])
