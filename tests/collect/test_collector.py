import errno
import json
import os
import re
import shutil
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from gathering import KEYWORDS, SCENES, assert_same_arrays, assert_same_content, gather
from rooms import box_room

from gym_batchnav import BatchNavEnv, Camera
from gym_batchnav.collect import collector, webdataset
from gym_batchnav.collect.collector import _check_room, _keywords, collect
from gym_batchnav.collect.dataset import SHARDS, all_shards, read_info
from gym_batchnav.collect.merge import check_dataset, merge_datasets
from gym_batchnav.collect.policies import ChosenPolicy
from gym_batchnav.collect.reading import read_episodes, replay
from gym_batchnav.collect.recorder import FrameBuffers
from gym_batchnav.protocols import protocol_of
from gym_batchnav.scene.save import save_glb

pytest.importorskip("zarr", reason="zarr needs Python 3.11")


def test_an_episode_is_replayed_to_the_bit(zarr_dataset):
    """One environment in one scene repeats observations, rewards and poses from the actions that are stored."""
    stored = [one for one in read_episodes(zarr_dataset) if one.scene == "apartment_2"]
    env = BatchNavEnv(1, scenes=["apartment_2"], **KEYWORDS)
    for one in (stored[1], stored[4]):
        rewards, ends, poses = [], [], []
        for row, (observation, reward, terminated, truncated) in enumerate(replay(env, one, seed=7)):
            assert_same_arrays(observation, {key: values[row] for key, values in one.observations.items()})
            rewards.append(reward)
            ends.append((terminated, truncated))
            poses.append((*env.agents.position[0], env.agents.heading[0]))
        assert rewards[1:] == one.rewards.tolist()
        assert ends[1:] == list(zip(one.terminated.tolist(), one.truncated.tolist(), strict=True))
        np.testing.assert_array_equal(poses, np.column_stack([one.position, one.heading]))
    with pytest.raises(ValueError, match="begins at another place in this batch"):
        replay(env, replace(one, number=0), seed=7)
    with pytest.raises(ValueError, match="scene 'attic' is not in the batch"):
        replay(env, replace(one, scene="attic"), seed=7)
    env.close()


def test_the_mapper_brings_its_sensors(tmp_path):
    keywords = {"scenes": SCENES[:1], "episodes_per_scene": 2, "sensor_noise": None, "actuation_noise": None}
    found = gather(tmp_path, policy="mapper", sensors=("rgb",), max_episode_steps=300, **keywords)
    assert set(found.info.images) == {"rgb", "depth"} and "map_path" in found.info.observation_space.spaces
    assert all(one.measures["success"] for one in read_episodes(tmp_path))


def test_every_episode_is_there_once_and_complete(zarr_dataset):
    episodes = list(read_episodes(zarr_dataset))
    assert [(one.scene, one.number) for one in episodes] == [(scene, n) for scene in SCENES for n in range(5)]
    assert not (zarr_dataset / ".lock").exists()
    for one in episodes:
        assert (one.terminated | one.truncated)[-1] and not (one.terminated | one.truncated)[:-1].any()
        assert one.truncated[-1] == (one.num_steps == 25 and one.actions[-1] != 0)
        assert one.terminated[-1] == (one.actions[-1] == 0)
        assert {len(values) for values in one.observations.values()} == {one.num_steps + 1}
        assert one.measures["distance_to_goal"] == one.distance[-1]
        assert one.distance[0] == pytest.approx(one.start_distance, abs=1e-3)


def test_a_camera_with_whole_metres_is_described_again(tmp_path):
    """As those of protocols are: 10 instead of 10.0."""
    camera = Camera(8, 8, min_depth=0, max_depth=10)
    changes = {"camera": camera, "sensors": ("depth",), "sensor_noise": None}
    gather(tmp_path / "data", scenes=SCENES[:1], episodes_per_scene=1, **changes)
    assert read_info(tmp_path / "data").depth_range == {"depth": (0.0, 10.0)}


def test_parts_of_any_size_merge_to_the_whole(zarr_dataset, tmp_path):
    """Two parts with other numbers of environments, joined, are the undisturbed dataset, byte for byte."""
    parts = [gather(tmp_path / f"part{i}", shard=f"{i}/2", num_envs=1 + 2 * i, scenes_at_once=1) for i in (1, 2)]
    assert [part.num_shards for part in parts] == [3, 3] and parts[0].num_missing == 3
    merged = merge_datasets(tmp_path / "all", [tmp_path / "part1", tmp_path / "part2"])
    assert not merged.missing
    assert_same_content(zarr_dataset, tmp_path / "all")
    assert not check_dataset(tmp_path / "all").missing


def test_datasets_whose_episodes_do_not_fill_shards_are_not_merged(zarr_dataset, tmp_path):
    gather(tmp_path / "more", episodes_per_scene=6)  # the other one has 5, in shards of 2
    with pytest.raises(ValueError, match=r"the datasets have 5, 6 episodes per scene.*fill shards of 2"):
        merge_datasets(tmp_path / "all", [zarr_dataset, tmp_path / "more"])
    assert not (tmp_path / "all").exists()


def test_the_last_part_in_a_shared_folder_makes_the_dataset(zarr_dataset, tmp_path):
    data, kept = tmp_path / "data", tmp_path / "kept"
    first = gather(data, shard="1/2", seed=np.int64(7), episodes_per_scene=np.int32(5), episodes_per_shard=np.uint8(2))
    assert first.num_missing == 3 and not (data / "zarr.json").exists()
    with pytest.raises(ValueError, match="pass a list with at least one dataset"):
        merge_datasets(kept, data)
    assert len(merge_datasets(kept, [data]).missing) == 3
    made = json.loads((kept / "zarr.json").read_text())
    assert len(made["attributes"]["shards"]) == 3 and made["attributes"]["num_episodes"] == first.num_episodes
    second = gather(data, shard="2/2")
    assert second.num_missing == 0 and second.num_found == 0
    assert_same_content(zarr_dataset, data)


def test_an_incomplete_folder_of_a_shard_is_named(tar_dataset, tmp_path):
    """Copying a dataset may be interrupted between the files of a shard and its record."""
    copy = shutil.copytree(tar_dataset, tmp_path / "copy")
    record = sorted((copy / SHARDS).glob("*/shard.json"))[2]
    record.unlink()
    with pytest.raises(ValueError, match=f"{record.parent.name}' has no shard.json, so it is incomplete"):
        gather(copy, to="webdataset")
    shutil.rmtree(record.parent)
    gather(copy, to="webdataset")
    assert_same_content(tar_dataset, copy)


def test_a_collection_is_resumed_and_grows(tar_dataset, tmp_path):
    first = gather(tmp_path, episodes_per_scene=4, scenes=SCENES[:1], to="webdataset")
    assert (first.num_shards, first.num_episodes, first.num_missing) == (2, 4, 0)
    second = gather(tmp_path, to="webdataset")
    assert (second.num_shards, second.num_found) == (4, 2)
    assert gather(tmp_path, to="webdataset").num_frames == 0
    assert_same_content(tar_dataset, tmp_path)
    with pytest.raises(ValueError, match=r"not fill shards of 2: pass 5, or name another folder$"):
        gather(tmp_path, to="webdataset", episodes_per_scene=8)


def test_tar_links_that_are_being_renumbered_have_no_index(tar_dataset, tmp_path, monkeypatch):
    root = shutil.copytree(tar_dataset, tmp_path / "data")
    replace_path = webdataset.replace_path

    def killed(source, target):
        if target.name == webdataset.LINK.format(2):
            raise KeyboardInterrupt
        replace_path(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(webdataset, "replace_path", killed)
        gather(root, to="webdataset")
    assert not (root / "dataset.json").exists()
    gather(root, to="webdataset")
    assert_same_content(tar_dataset, root)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, "holds another collection: .*seed: 7 instead of 8"),
        ({"to": "webdataset"}, "format: zarr instead of webdataset"),
        ({"to": None}, "to=None: choose one of zarr, webdataset"),
        ({"camera": "wide", "size": 8}, "camera='wide': pass a Camera"),
        ({"shard": 3}, "shard=3: pass i/n"),
        ({"to": "lerobot"}, "to='lerobot': choose one of zarr, webdataset; collect export converts"),
        ({"policy": "nobody.safetensors"}, "is neither a known name nor a file"),
        ({"policy": "collections:nothing"}, "policy='collections:nothing'"),
        ({"num_envs": 0}, "num_envs=0"),
        ({"sample": True}, "sample=True: only the actions of a policy file"),
        ({"seed": 1.5}, "seed=1.5: pass a whole number"),
        ({"episodes_per_shard": 10_001}, "episodes_per_shard=10001: pass at most 10,000"),
        ({"agents_per_world": 2}, "one agent for each world"),
        ({"buffers": 2}, "buffers= is chosen by collect"),
        ({"scenes": ["apartment_1", "apartment_1"]}, r"two scenes have the same name '.*apartment_1"),
    ],
)
def test_wrong_arguments_are_refused(zarr_dataset, changes, message):
    with pytest.raises(ValueError, match=message):
        gather(zarr_dataset, **changes)


LOW = Camera(256, 256, hfov_deg=70, eye_height=0.5)


@pytest.mark.parametrize(
    ("trained", "given", "camera"),
    [
        ({}, {}, Camera(32, 32)),
        ({}, {"protocol": "pointnav-2021"}, replace(protocol_of("pointnav-2021").camera, width=32, height=32)),
        ({"camera": LOW}, {}, replace(LOW, width=32, height=32)),
        ({}, {"camera": {"low": LOW}}, {"low": replace(LOW, width=32, height=32)}),
    ],
)
def test_a_size_keeps_the_rest_of_the_camera(trained, given, camera):
    chosen = ChosenPolicy("mine", None, trained, is_file=bool(trained))
    assert _keywords(chosen, ("depth",), 32, given)["camera"] == camera


def test_a_policy_that_sees_has_its_own_size():
    chosen = ChosenPolicy("mine", None, {"sensors": ("depth",), "camera": Camera(32, 32)}, is_file=True)
    assert _keywords(chosen, ("rgb",), 32, {})["camera"] == Camera(32, 32)
    with pytest.raises(ValueError, match="reads images of 32 x 32 pixels, not of 64 x 64: leave out size="):
        _keywords(chosen, ("rgb",), 64, {})


def test_room_is_estimated_before_anything_runs(zarr_dataset, tmp_path, monkeypatch):
    info = read_info(zarr_dataset)
    episode = 24 * 20 * (3 + 4) * 26  # bytes of RGB and depth in 25 steps
    shards = all_shards(info)
    monkeypatch.setenv("GYM_BATCHNAV_MEMORY", str(2 * episode))  # of which images may take half
    for room, says in ((25, "num_envs=6"), (13, None), (4, "smaller episodes_per_shard=")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, room=room: SimpleNamespace(free=room * episode))
        if says is None:
            _check_room(tmp_path, info, shards, 2, 3, 25)
            continue
        with pytest.raises(ValueError, match=f"num_envs=64: .* available: pass .*{says}"):
            _check_room(tmp_path / "new", info, shards * 20, 64, 5, 25)


def test_images_that_memory_has_no_room_for_are_on_disk(tar_dataset, tmp_path, monkeypatch):
    """The dataset is the same, and the temporary files have no names that a kill could leave behind."""
    monkeypatch.setattr(collector, "_IMAGE_BYTES", 2 * 64 * 24 * 20 * (3 + 4))
    seen = []
    found = gather(tmp_path, to="webdataset", progress=lambda *_: seen.extend(tmp_path.iterdir()))
    assert found.peak_bytes == collector._IMAGE_BYTES and found.spilled_bytes > 0
    assert {path.name for path in seen} <= {"collection.json", "shards", ".aside"}
    assert_same_content(tar_dataset, tmp_path)


def full(*_):
    raise OSError(errno.ENOSPC, "no space left")


def test_images_take_no_more_memory_or_disk_than_there_is(tmp_path, monkeypatch):
    buffers = FrameBuffers({"depth": ((8, 8, 1), np.dtype(np.float32))}, tmp_path, 3 * 64 * 256)
    held = [buffers.take(64), buffers.take(128)]
    assert buffers.nbytes == 3 * 64 * 256 and buffers.spilled_bytes == 0
    spilled = buffers.take(64)
    spilled["depth"][:] = 1
    assert isinstance(spilled["depth"], np.memmap) and buffers.spilled_bytes == 64 * 256
    buffers.give_back(held.pop(0))
    assert not isinstance(buffers.take(64)["depth"], np.memmap)

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(ValueError, match=r"has no room for more .*no space left.* pass a smaller num_envs="):
        buffers.take(64)
    without_images = FrameBuffers({}, tmp_path, 0)
    for _ in range(3):
        without_images.give_back(without_images.take(64))
    assert not any(without_images._free.values())


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.collect.folder.sha256_of", lambda path: full())
    with pytest.raises(OSError, match=rf"cannot write to '{re.escape(str(tmp_path))}': no space left: .*collect again"):
        gather(tmp_path, episodes_per_scene=3, scenes=SCENES[:1])
    assert not list(tmp_path.glob(".aside/*"))


def test_a_folder_that_cannot_be_made_is_refused_before_scenes_load(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(collector, "_info", lambda *_: pytest.fail("a scene was loaded"))
    with pytest.raises(OSError, match="cannot be created: a file is in its place: name another one"):
        gather(tmp_path / "file" / "data")


def test_a_scene_with_too_few_episodes_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"'apartment_1' has only .* episodes: .* episodes_per_scene=.* episodes="):
        gather(tmp_path, episodes_per_scene=2000, scenes=["apartment_1"], num_envs=1)
    assert list((tmp_path / SHARDS).iterdir()) == []
    gather(tmp_path, episodes_per_scene=3, scenes=["apartment_1"])
    assert not check_dataset(tmp_path).missing


def test_sampled_episodes_can_be_added_up_to_their_number(tmp_path):
    hall = tmp_path / "hall.glb"
    save_glb(box_room("hall"), hall)
    data = tmp_path / "data"
    keywords = {"scenes": [hall], "sensors": (), "sensor_noise": None, "num_envs": 2, "max_episode_steps": 3}
    first = gather(data, **keywords, episodes_per_scene=2, episodes=4)
    assert gather(data, **keywords, episodes_per_scene=4, episodes=4).info.key == first.info.key
    assert json.loads((data / "zarr.json").read_text())["attributes"]["num_episodes"] == 4
    with pytest.raises(ValueError, match="has only 4 episodes"):
        gather(data, **keywords, episodes_per_scene=6, episodes=4)
    with pytest.raises(ValueError, match=r"episodes.*count.*: 4 instead of 6"):
        gather(data, **keywords, episodes_per_scene=6, episodes=6)
    with pytest.raises(ValueError, match="episodes=0"):
        gather(data, episodes=0)


def test_a_function_collects_blind(tmp_path):
    def ahead(observation):
        return np.ones(len(observation["pointgoal_with_gps_compass"]), np.int64)

    keywords = {"sensors": (), "max_episode_steps": 5, "episodes_per_scene": 2}
    found = collect(tmp_path, ["apartment_3"], policy=ahead, **keywords)
    assert found.num_frames == 12
    assert all((one.actions == 1).all() for one in read_episodes(tmp_path))
    assert "test_collector" in json.loads((tmp_path / "collection.json").read_text())["policy"]


def test_a_slow_writer_makes_the_batch_wait(tmp_path, monkeypatch):
    """While nothing is written, only a few shards are collected; the batch then goes on."""
    gate = threading.Event()
    write_shard = collector.write_shard

    def slow(*arguments):
        gate.wait()
        return write_shard(*arguments)

    monkeypatch.setattr(collector, "write_shard", slow)
    ended = []
    keywords = {"sensors": (), "sensor_noise": None, "scenes": SCENES[:1], "episodes_per_scene": 20, "num_envs": 2}
    keywords |= {"workers": 1, "progress": lambda *_: ended.append(1)}
    run = threading.Thread(target=gather, args=(tmp_path,), kwargs=keywords)
    run.start()
    seen = -1
    while seen < 4 or seen < len(ended):  # until no episode ends any more
        seen = len(ended)
        run.join(0.2)
    assert seen <= 4 + 3 * 2  # shards of two: one in work, one that waits, one in hand; and others that are not full
    gate.set()
    run.join()
    assert len(ended) == 20


def test_an_error_of_a_writer_stops_the_run(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(collector, "write_shard", full)
    ended = []
    with pytest.raises(OSError, match="no space left"):
        gather(tmp_path, episodes_per_scene=40, workers=1, progress=lambda *_: ended.append(1))
    assert len(ended) < 40
    assert list((tmp_path / SHARDS).iterdir()) == []
