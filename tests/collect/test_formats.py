"""Every format that others read, written by the engine: what the batch saw is what the dataset holds."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from gym_batchnav.collect.collector import collect
from gym_batchnav.collect.formats import make_format
from gym_batchnav.geometry import Camera

KEYWORDS = {"episodes_per_scene": 3, "episodes_per_shard": 2, "num_envs": 2, "camera": Camera(32, 32)}
KEYWORDS |= {"max_episode_steps": 6, "policy": "random", "episodes": 3}


@pytest.mark.parametrize("to", ["lerobot", "minari"])
def test_a_collection_that_lost_a_shard_is_made_whole(tmp_path, to):
    style = make_format(to, **({"rgb": "images"} if to == "lerobot" else {}))
    first = collect(tmp_path / "first-v0", "apartment_0", to=style, **KEYWORDS)
    assert (first.num_shards, first.num_episodes, first.num_missing) == (2, 3, 0)
    again = tmp_path / "again" / "first-v0"
    shutil.copytree(tmp_path / "first-v0", again)
    shutil.rmtree(sorted((again / "shards").iterdir())[0])
    assert collect(again, "apartment_0", to=style, **KEYWORDS).num_shards == 1
    files = [sorted(path.rglob("*.*")) for path in (tmp_path / "first-v0", again)]
    for one, other in zip(*files, strict=True):
        assert one.is_dir() or one.read_bytes() == other.read_bytes(), one


def test_both_formats_hold_the_same_values(tmp_path):
    collect(tmp_path / "l", "apartment_0", to=make_format("lerobot", rgb="images"), **KEYWORDS)
    collect(tmp_path / "m", "apartment_0", to="minari", **KEYWORDS)
    rows = pq.read_table(tmp_path / "l" / "data").to_pydict()
    for number in range(3):
        batch = pa.ipc.open_file(tmp_path / "m" / "data" / str(number) / "part-0.arrow").get_batch(0)
        mine = [row for row, episode in enumerate(rows["episode_index"]) if episode == number]
        assert batch["actions"].to_pylist()[:-1] == [rows["action"][row] for row in mine]
        assert batch["rewards"].to_pylist()[:-1] == [rows["next.reward"][row] for row in mine]
        depth = batch["observations"].field("depth").to_pylist()
        for step, row in enumerate(mine):
            file = rows["observation.images.depth"][row]["bytes"]
            assert np.array_equal(np.frombuffer(file, "<f4", 32 * 32, len(file) - 4096), np.float32(depth[step]))
    info = json.loads((tmp_path / "l" / "meta" / "gym_batchnav.json").read_text())
    assert info["scene_cards"]["apartment_0"]["episodes"]


def test_options_of_other_formats_are_refused():
    with pytest.raises(ValueError, match="to='minari' has no option version"):
        make_format("minari", version="2.1")
