"""Minari datasets, read back by PyArrow alone; tests/collect/test_minari_reader.py holds them to Minari itself."""

import json
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
import recorded
from gymnasium.spaces import Box, Dict, Text

from gym_batchnav.collect import minari
from gym_batchnav.collect.api import SHARDS
from gym_batchnav.collect.arrow_files import schema_of, write_episode
from gym_batchnav.collect.minari import Minari, dataset_id, env_spec


def written(root, **kwargs):
    style = Minari()
    info = recorded.make_info(style)
    episodes = recorded.make_episodes(**kwargs)
    records = recorded.write_dataset(root, style, info, episodes)
    return style, info, recorded.in_order(episodes), records


def read(folder):
    """The rows of an episode: its single batch, and its metadata."""
    (path,) = folder.glob("*.arrow")
    file = pa.ipc.open_file(path)
    assert file.num_record_batches == 1
    return file.get_batch(0), json.loads((folder / "metadata.json").read_text())


def array_of(column, shape):
    values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    return values.to_numpy(zero_copy_only=False).reshape(len(column), *shape)


def test_every_value_is_read_back(tmp_path):
    _, info, episodes, _ = written(tmp_path)
    metadata = json.loads((tmp_path / "data" / "metadata.json").read_text())
    assert (metadata["total_episodes"], metadata["total_steps"]) == (6, 37)
    assert metadata["data_format"] == "arrow" and metadata["jpeg_encoding"] is False
    assert metadata["gym_batchnav"]["card"] == info.card and metadata["gym_batchnav"]["seed"] == 5
    for index, episode in enumerate(episodes):
        batch, about = read(tmp_path / "data" / str(index))
        for key, values in episode.observations.items():
            found = array_of(batch["observations"].field(key), values.shape[1:])
            assert found.dtype == values.dtype and np.array_equal(found, values)
        assert np.array_equal(batch["actions"].to_numpy()[:-1], episode.actions)
        assert np.array_equal(batch["rewards"].to_numpy()[:-1], episode.rewards)
        assert np.array_equal(array_of(batch["terminations"], ())[:-1], episode.terminated)
        assert np.array_equal(array_of(batch["truncations"], ())[:-1], episode.truncated)
        infos = {"position": episode.position, "heading": episode.heading, "pitch": episode.pitch}
        infos |= {"distance_to_goal": episode.distance, "goal": episode.goal}
        for key, values in infos.items():
            assert np.array_equal(array_of(batch["infos"].field(key), values.shape[1:]), values)
        assert (about["id"], about["total_steps"]) == (index, episode.num_steps)
        known = about["gym_batchnav"]
        assert (known["scene"], known["number"]) == (episode.scene, episode.number)
        assert known["measures"] == episode.measures


def test_continuous_actions(tmp_path):
    style = Minari()
    info = recorded.make_info(style, action_space=Box(-1, 1, (2,), np.float32))
    recorded.write_dataset(tmp_path, style, info, recorded.make_episodes(continuous=True))
    batch, _ = read(tmp_path / "data" / "0")
    wanted = recorded.make_episode("attic", 0, 7, continuous=True).actions
    assert np.array_equal(array_of(batch["actions"], (2,))[:-1], wanted)


def test_finish_after_a_kill_and_with_more_shards(tmp_path):
    style, info, _, records = written(tmp_path / "whole")
    part = tmp_path / "part" / "whole"  # the name is in the metadata
    shutil.copytree(tmp_path / "whole" / SHARDS, part / SHARDS)
    style.finish(part, info, records[:2])
    assert len(list((part / "data").iterdir())) == 5
    shutil.rmtree(part / "data")
    (part / ".data.aside" / "data" / "0").mkdir(parents=True)
    style.finish(part, info, records)
    assert recorded.checksums(part) == recorded.checksums(tmp_path / "whole")


def test_name_of_the_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert dataset_id(tmp_path / "homes" / "pointnav-v3") == "homes/pointnav-v3"
    assert dataset_id(tmp_path / "my data") == "my_data-v0"
    assert dataset_id(Path("/elsewhere/pointnav-v1")) == "pointnav-v1"


def test_specification_of_the_environment():
    info = recorded.make_info(Minari(), env={"sensors": ["rgb"], "max_episode_steps": 50})
    spec = gymnasium.envs.registration.EnvSpec.from_json(env_spec(info))
    assert spec.id == "BatchNav/PointNav-v0" and spec.max_episode_steps == 50
    assert spec.kwargs == {"of": "PointNav", "recorded": {"sensors": ["rgb"]}, "scenes": ["attic", "cellar"]}
    assert env_spec(recorded.make_info(Minari(), task="MyTask")) is None


def test_sensors_and_episodes_that_do_not_fit(tmp_path, monkeypatch):
    style = Minari()
    with pytest.raises(ValueError, match=r"'words'.*leave that sensor out"):
        style.check(recorded.make_info(style, observation_space=Dict(words=Text(5))))
    monkeypatch.setattr(minari, "_MAX_STEPS", 6)
    with pytest.raises(ValueError, match="7 actions, and Minari reads at most 6"):
        written(tmp_path)
    with pytest.raises(ValueError, match="no finished shard"):
        style.finish(tmp_path, recorded.make_info(style), [])


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_metadata(path):
    data = bytearray(path.read_bytes())
    begin = data.index(b"\xff\xff\xff\xff", 100)
    data[begin + 8 : begin + 200] = bytes(192)
    path.write_bytes(data)


def claim_memory(path):
    """The first compressed buffer says that it holds a terabyte."""
    data = bytearray(path.read_bytes())
    place = data.index(b"\x04\x22\x4d\x18") - 8  # the magic number of LZ4
    data[place : place + 8] = (2**40).to_bytes(8, "little")
    path.write_bytes(data)


def other_columns(path):
    with pa.ipc.new_file(path, pa.schema([("x", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"x": [1]}))


def other_length(path):
    info = recorded.make_info(Minari())
    write_episode(path, recorded.make_episode("attic", 0, 6), info, schema_of(info))


def no_arrow(path):
    path.write_bytes(b"ARROW1\0\0" + bytes(64))


@pytest.mark.parametrize("damage", [cut, flip_metadata, claim_memory, other_columns, other_length, no_arrow])
def test_damaged_shards_are_refused(tmp_path, damage):
    style = Minari()
    info = recorded.make_info(style)
    (record,) = recorded.write_shards(tmp_path, style, info, recorded.make_episodes(), recorded.SHARDED[:1])
    folder = tmp_path / SHARDS / record.shard.name
    style.verify(folder, info, record)
    damage(folder / "000000.arrow")
    with pytest.raises(ValueError, match=r"000000.arrow' is damaged"):
        style.verify(folder, info, record)
