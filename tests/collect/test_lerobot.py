"""LeRobot datasets, read back by PyArrow, Pillow and PyAV alone; tests/collect/test_lerobot_reader.py holds them to
LeRobot's own reader.
"""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import recorded
from gymnasium.spaces import Box, Dict, Text
from PIL import Image

from gym_batchnav.collect.api import SHARDS
from gym_batchnav.collect.assembly import assembled
from gym_batchnav.collect.lerobot import LeRobot
from gym_batchnav.collect.lerobot.features import Feature, instruction
from gym_batchnav.collect.lerobot.rows import rows_of, schema_of
from gym_batchnav.collect.lerobot.stats import column_stats, combine, image_stats
from gym_batchnav.collect.lerobot.tiff import tiff_files


def written(root, metres=False, **options):
    """A dataset, its episodes in order and the records of its shards."""
    style = LeRobot(**options)
    episodes = recorded.make_episodes(metres=metres)
    info = recorded.make_info(style, metres)
    records = recorded.write_dataset(root, style, info, episodes)
    return style, info, recorded.in_order(episodes), records


def info_of(root):
    return json.loads((root / "meta" / "info.json").read_text())


def read_version_3(root):
    """The episodes of a dataset of version 3.0 by its own paths: rows by column, frames by video, and their entry."""
    info = info_of(root)
    tables = {}
    for entry in pq.read_table(root / "meta" / "episodes").to_pylist():
        place = {"chunk_index": entry["data/chunk_index"], "file_index": entry["data/file_index"]}
        path = root / info["data_path"].format(**place)
        table = tables.setdefault(path, pq.read_table(path))
        rows = table.filter(pa.compute.equal(table["episode_index"], entry["episode_index"])).to_pydict()
        frames = {}
        for name in video_names(info):
            place = {"chunk_index": entry[f"videos/{name}/chunk_index"]}
            place["file_index"] = entry[f"videos/{name}/file_index"]
            path = root / info["video_path"].format(video_key=name, **place)
            begin = entry[f"videos/{name}/from_timestamp"]
            wanted = [begin + time for time in rows["timestamp"]]
            frames[name] = frames_at(path, wanted, info["features"][name]["info"])
        yield rows, frames, entry


def read_version_21(root):
    info = info_of(root)
    for line in (root / "meta" / "episodes.jsonl").read_text().splitlines():
        entry = json.loads(line)
        place = {"episode_chunk": 0, "episode_index": entry["episode_index"]}
        rows = pq.read_table(root / info["data_path"].format(**place)).to_pydict()
        frames = {
            name: frames_at(
                root / info["video_path"].format(video_key=name, **place), rows["timestamp"], {"is_depth_map": False}
            )
            for name in video_names(info)
        }
        yield rows, frames, entry


def video_names(info):
    return [name for name, one in info["features"].items() if one["dtype"] == "video"]


def frames_at(path, times, about):
    """Frames [T, ...] of a video whose times are within 0.1 ms, compared as float32 as LeRobot does."""
    kind = "gray12le" if about["is_depth_map"] else "rgb24"
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [(np.float32(frame.pts * stream.time_base), frame.to_ndarray(format=kind)) for frame in
                  container.decode(stream)]  # fmt: skip
    found = []
    for time in np.float32(times):
        gaps = [abs(float(time) - float(known)) for known, _ in frames]
        assert min(gaps) < 1e-4
        found.append(frames[int(np.argmin(gaps))][1])
    return np.stack(found)


def images_of(column):
    return np.stack([np.array(Image.open(io.BytesIO(one["bytes"]))) for one in column])


def assert_rows(rows, episode, index, first):
    """Hold all columns but images to an episode."""
    steps = episode.num_steps
    count = np.arange(steps)
    assert np.array_equal(rows["index"], first + count) and np.array_equal(rows["frame_index"], count)
    assert set(rows["episode_index"]) == {index}
    assert np.array_equal(rows["timestamp"], (count / 10).astype(np.float32))
    assert np.array_equal(rows["action"], episode.actions)
    assert np.array_equal(rows["next.reward"], episode.rewards)
    assert np.array_equal(rows["next.done"], episode.terminated | episode.truncated)
    assert np.array_equal(rows["next.terminated"], episode.terminated)
    assert np.array_equal(rows["goal.distance"], episode.distance[:-1])
    state = np.array(rows["observation.state"], np.float32)
    assert np.array_equal(state[:, :3], episode.position[:-1]) and np.array_equal(state[:, 3], episode.heading[:-1])
    normals = np.array(rows["observation.normals"], np.float32)
    assert np.array_equal(normals, episode.observations["normals"][:-1])
    polar = np.array(rows["observation.pointgoal_with_gps_compass"], np.float32)
    assert np.array_equal(polar, episode.observations["pointgoal_with_gps_compass"][:-1])
    assert np.array_equal(rows["observation.category"], episode.observations["category"][:-1])
    semantic = images_of(rows["observation.images.rear.semantic"])
    assert np.array_equal(semantic, episode.observations["rear/semantic"][:-1, ..., 0])


@pytest.mark.parametrize(("version", "read"), [("3.0", read_version_3), ("2.1", read_version_21)])
def test_every_value_is_read_back(tmp_path, version, read):
    _, _, episodes, records = written(tmp_path, version=version, rgb="lossless")
    first = 0
    found = list(read(tmp_path))
    assert len(found) == len(episodes) and sum(len(one.episodes) for one in records) == len(episodes)
    for index, ((rows, frames, entry), episode) in enumerate(zip(found, episodes, strict=True)):
        assert_rows(rows, episode, index, first)
        assert np.array_equal(frames["observation.images.rgb"], episode.observations["rgb"][:-1])
        depth = images_of(rows["observation.images.depth"])
        assert depth.dtype == np.float32 and np.array_equal(depth, episode.observations["depth"][:-1, ..., 0])
        assert entry["length"] == episode.num_steps and entry["tasks"] == [instruction(episode, "PointNav")]
        assert (entry["gym_batchnav/scene"], entry["gym_batchnav/number"]) == (episode.scene, episode.number)
        assert json.loads(entry["gym_batchnav/measures"]) == episode.measures
        assert json.loads(entry["gym_batchnav/final"])["position"] == episode.position[-1].tolist()
        first += episode.num_steps
    info = info_of(tmp_path)
    assert (info["total_episodes"], info["total_frames"], info["fps"]) == (len(episodes), first, 10)
    provenance = json.loads((tmp_path / "meta" / "gym_batchnav.json").read_text())
    assert provenance["seed"] == 5 and provenance["card"] == {"protocol": "", "checksum": "0123"}


def test_tasks_are_found_by_number(tmp_path):
    written(tmp_path, rgb="images")
    table = pq.read_table(tmp_path / "meta" / "tasks.parquet").to_pydict()
    rows = pq.read_table(tmp_path / "data").to_pydict()
    assert table["task_index"] == list(range(len(table["task"])))
    tasks = {
        episode: table["task"][task] for episode, task in zip(rows["episode_index"], rows["task_index"], strict=True)
    }
    assert tasks[0] == "Find a chair and stop beside it." == tasks[4] and "Go to the point" in tasks[1]


def test_colours_as_images_are_exact_and_as_video_are_close(tmp_path):
    _, _, episodes, _ = written(tmp_path / "images", rgb="images")
    for (rows, _, _), episode in zip(read_version_3(tmp_path / "images"), episodes, strict=True):
        assert np.array_equal(images_of(rows["observation.images.rgb"]), episode.observations["rgb"][:-1])
    written(tmp_path / "video", rgb="h264")
    for (_, frames, _), episode in zip(read_version_3(tmp_path / "video"), episodes, strict=True):
        error = np.abs(frames["observation.images.rgb"].astype(int) - episode.observations["rgb"][:-1])
        assert error.mean() < 12  # colours at half the resolution


@pytest.mark.parametrize("metres", [False, True])
def test_depth_is_within_the_stated_quantisation(tmp_path, metres):
    _, _, episodes, _ = written(tmp_path / "millimetres", metres, rgb="images", depth="uint16")
    for (rows, _, _), episode in zip(read_version_3(tmp_path / "millimetres"), episodes, strict=True):
        depth = images_of(rows["observation.images.depth"])
        wanted = episode.observations["depth"][:-1, ..., 0] * (1 if metres else 10)
        assert depth.dtype == np.uint16 and np.abs(depth / 1000 - wanted).max() < 0.000501
    written(tmp_path / "video", metres, rgb="images", depth="video")
    for (_, frames, _), episode in zip(read_version_3(tmp_path / "video"), episodes, strict=True):
        codes = frames["observation.images.depth"]
        wanted = np.clip(episode.observations["depth"][:-1, ..., 0] * (1 if metres else 10), 0, 10)
        assert np.abs(codes * (10 / 4095) - wanted).max() < 10 / 4095 / 2 + 1e-6
    about = info_of(tmp_path / "video")["features"]["observation.images.depth"]["info"]
    assert about["is_depth_map"] and about["depth_unit"] == "m" and about["video.depth_max"] == 10


def test_bytes_depend_on_the_episodes_alone(tmp_path):
    for folder in ("once", "twice"):
        written(tmp_path / folder)
    assert recorded.checksums(tmp_path / "once") == recorded.checksums(tmp_path / "twice")


@pytest.mark.parametrize("version", ["3.0", "2.1"])
def test_finish_after_a_kill_and_with_more_shards(tmp_path, version):
    style, info, _, records = written(tmp_path / "whole", version=version)
    part = tmp_path / "part"
    shutil.copytree(tmp_path / "whole" / SHARDS, part / SHARDS)
    (part / "notes.txt").write_text("mine")
    style.finish(part, info, records[:1])
    assert info_of(part)["total_episodes"] == 3
    # What a kill leaves: half of the folders aside, others in place, no meta.
    shutil.rmtree(part / "meta")
    (part / ".meta.aside" / "data").mkdir(parents=True)
    style.finish(part, info, records)
    (part / "notes.txt").unlink()
    assert recorded.checksums(part) == recorded.checksums(tmp_path / "whole")


def test_long_shards_have_several_videos(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.collect.lerobot.MAX_FILE_SECONDS", 1.0)
    _, _, episodes, _ = written(tmp_path, rgb="lossless")
    assert len(list((tmp_path / "videos").rglob("*.mp4"))) == 5  # 7 + 1, 12 | 3 | 5, 9 frames of 0.1 s
    for (_, frames, _), episode in zip(read_version_3(tmp_path), episodes, strict=True):
        assert np.array_equal(frames["observation.images.rgb"], episode.observations["rgb"][:-1])


def test_rows_continue_in_further_files(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.collect.lerobot.layout.DATA_MB", 0.1)
    written(tmp_path, rgb="images")
    files = sorted((tmp_path / "data").rglob("*.parquet"))
    assert len(files) > 2
    index = np.concatenate([pq.read_table(path)["index"].to_numpy() for path in files])
    assert np.array_equal(index, np.arange(37))


def test_statistics_are_those_of_the_values(tmp_path):
    _, _, episodes, _ = written(tmp_path, rgb="images")
    stats = json.loads((tmp_path / "meta" / "stats.json").read_text())
    rewards = np.concatenate([one.rewards for one in episodes])
    found = stats["next.reward"]
    assert np.allclose([found["mean"][0], found["std"][0]], [rewards.mean(), rewards.std()])
    assert (found["min"], found["max"], found["count"]) == ([rewards.min()], [rewards.max()], [37])
    images = np.concatenate([one.observations["rgb"][:-1] for one in episodes]) / 255
    found = np.array(stats["observation.images.rgb"]["mean"])
    assert found.shape == (3, 1, 1) and np.allclose(found.ravel(), images.mean(axis=(0, 1, 2)), atol=0.01)


@pytest.mark.parametrize("count", [1, 2, 7, 101, 500])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_quantiles_are_numpys(count, dtype):
    values = (np.random.default_rng(count).normal(size=(count, 3)) * 100).astype(dtype)
    for name, share in {"min": 0, "q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99, "max": 1}.items():
        assert np.allclose(column_stats(values)[name], np.quantile(values.astype(np.float64), share, axis=0))


def test_statistics_of_bytes_are_those_of_numbers():
    images = np.random.default_rng(0).integers(0, 256, (7, 20, 30, 3)).astype(np.uint8)
    counted = image_stats(images)
    for name, value in image_stats(images.astype(np.float32)).items():
        assert np.allclose(counted[name], value, atol=1)  # quantiles are not interpolated


def test_combined_statistics_are_those_of_all():
    values = np.random.default_rng(0).normal(size=(60, 2))
    values[0] = [np.inf, np.nan]
    parts = [column_stats(values[:10]), column_stats(values[10:])]
    combined = combine([column_stats(values[1:10]), column_stats(values[10:])])
    assert np.allclose(combined["mean"], values[1:].mean(axis=0)) and np.allclose(
        combined["std"], values[1:].std(axis=0)
    )
    assert np.isfinite(combine(parts)["mean"]).all() and combine(parts)["count"] == [60]


@pytest.mark.parametrize(("dtype", "channels"), [("u1", 1), ("u1", 3), ("u2", 1), ("i4", 1), ("f4", 1)])
def test_tiff_is_read_by_pillow(dtype, channels):
    values = np.random.default_rng(0).random((2, 5, 7, channels)) * 200
    images = values.astype(dtype)
    for file, image in zip(tiff_files(images), images, strict=True):
        assert np.array_equal(np.array(Image.open(io.BytesIO(file.tobytes()))).reshape(image.shape), image)


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        (0.0, "straight ahead"),
        (np.pi, "behind you"),
        (np.pi / 2, "90 degrees to the right"),
        (-1, "55 degrees to the left"),
    ],
)
def test_instruction_says_where_the_goal_is(heading, words):
    episode = recorded.make_episode("attic", 1, 3)
    pose = {"position": np.zeros((4, 3), np.float32), "heading": np.full(4, heading, np.float32)}
    goal = np.tile(np.array([0, 0, -2], np.float32), (4, 1))
    assert (
        instruction(replace(episode, goal=goal, **pose), "PointNav")
        == f"Go to the point 2.0 m away, {words}, and stop there."
    )


def test_instruction_without_a_goal():
    episode = recorded.make_episode("attic", 1, 3)
    nowhere = np.full((4, 3), np.nan, np.float32)
    assert instruction(replace(episode, goal=nowhere), "Explore") == "Carry out the task Explore."


def test_continuous_actions(tmp_path):
    style = LeRobot(rgb="images")
    info = recorded.make_info(style, action_space=Box(-1, 1, (2,), np.float32))
    episodes = recorded.make_episodes(continuous=True)
    recorded.write_dataset(tmp_path, style, info, episodes)
    for (rows, _, _), episode in zip(read_version_3(tmp_path), recorded.in_order(episodes), strict=True):
        assert np.array_equal(np.array(rows["action"], np.float32), episode.actions)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"version": "1.0"}, "version='1.0'"), ({"rgb": "gif"}, "rgb='gif'"), ({"depth": "jpeg"}, "depth='jpeg'"),
     ({"max_depth": 0.0}, "max_depth=0.0")],
)  # fmt: skip
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        LeRobot(**options)


def test_sensors_that_do_not_fit():
    style = LeRobot()
    with pytest.raises(ValueError, match=r"'words'.*leave that sensor out"):
        style.check(recorded.make_info(style, observation_space=Dict(words=Text(5))))
    odd = Dict(rgb=Box(0, 255, (35, 64, 3), np.uint8))
    with pytest.raises(ValueError, match=r"64x35 pixels, and libx264 needs .* even sizes: store rgb as images"):
        style.check(recorded.make_info(style, observation_space=odd))
    LeRobot(rgb="images").check(recorded.make_info(style, observation_space=odd))
    small = Dict(rgb=Box(0, 255, (32, 64, 3), np.uint8))
    with pytest.raises(ValueError, match="at least 64 pixels"):
        LeRobot(rgb="av1").check(recorded.make_info(style, observation_space=small))


def test_columns_beyond_int32_are_refused():
    """Arrow counts bytes of images and values of lists in int32; 600 depths of 4 MiB and a header are more."""
    images = np.broadcast_to(np.zeros((1, 1, 1, 1), np.float32), (600, 1024, 1024, 1))
    depth = Feature("depth", "image", "float32", (1024, 1024, 1))
    with pytest.raises(ValueError, match=r"600 values of size .* too many .* lower max_episode_steps="):
        rows_of(recorded.make_episode("attic", 0, 3), {"depth": images}, [depth], 10, schema_of([depth]))


def test_an_error_leaves_no_folder_aside(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(OSError, match="full"), assembled(tmp_path, ("data",)) as aside:
        (aside / "data").mkdir()
        raise OSError("disk is full")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_instructions_have_the_article_of_the_category():
    episode = recorded.make_episode("attic", 0, 3)
    assert instruction(replace(episode, category="armchair"), "ObjectNav") == "Find an armchair and stop beside it."
    assert instruction(replace(episode, category="tv_stand"), "ObjectNav") == "Find a tv stand and stop beside it."


def test_no_shard_is_an_error(tmp_path):
    style = LeRobot()
    with pytest.raises(ValueError, match="no finished shard"):
        style.finish(tmp_path, recorded.make_info(style), [])


def damage_rows(folder, info):
    table = pq.read_table(folder / "rows.parquet")
    pq.write_table(table, folder / "rows.parquet")  # all episodes in one row group


def damage_columns(folder, info):
    pq.write_table(pa.table({"index": [1]}), folder / "rows.parquet")


def damage_bytes(folder, info):
    (folder / "rows.parquet").write_bytes(b"PAR1" + bytes(50))


def damage_video(folder, info):
    (folder / "videos" / "observation.images.rgb" / "000000.mp4").write_bytes(bytes(100))


def damage_lines(folder, info):
    (folder / "episodes.jsonl").write_text('{"length": 7}\n')


def damage_depth(folder, info):
    (folder / "episodes.jsonl").write_text("[" * 10**5)


def damage_number(folder, info):
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    line = json.loads(lines[0])
    line["clips"]["observation.images.rgb"]["file"] = float("inf")
    (folder / "episodes.jsonl").write_text("\n".join([json.dumps(line), *lines[1:]]))


def damage_length(folder, info):
    (folder / "episodes.jsonl").write_text("x" * 2**21)


def damage_place(folder, info):
    path = folder / "episodes.jsonl"
    path.write_text(path.read_text().replace('"file": 0', '"file": "../../x"'))


def damage_memory(folder, info):
    schema = pq.read_schema(folder / "rows.parquet")
    table = pq.read_table(folder / "rows.parquet")
    big = pa.array([{"bytes": bytes(2**20), "path": None}] * len(table), schema.field("observation.images.depth").type)
    table = table.set_column(schema.get_field_index("observation.images.depth"), "observation.images.depth", big)
    with pq.ParquetWriter(folder / "rows.parquet", schema, compression="zstd", use_dictionary=False) as writer:
        for begin, size in ((0, 7), (7, 1), (8, 12)):
            writer.write_table(table.slice(begin, size))


@pytest.mark.parametrize(
    "damage",
    [
        damage_rows,
        damage_columns,
        damage_bytes,
        damage_video,
        damage_lines,
        damage_depth,
        damage_number,
        damage_length,
        damage_place,
        damage_memory,
    ],
)
def test_damaged_shards_are_refused(tmp_path, damage):
    style = LeRobot()
    info = recorded.make_info(style)
    (record,) = recorded.write_shards(tmp_path, style, info, recorded.make_episodes(), recorded.SHARDED[:1])
    folder = Path(tmp_path, SHARDS, record.shard.name)
    style.verify(folder, info, record)
    damage(folder, info)
    with pytest.raises(ValueError, match="is damaged"):
        style.verify(folder, info, record)
