"""``gym-batchnav scene prepare`` on many scenes: parts of a list, interruptions, and what was refused."""

import os
import subprocess
import sys
import time

import pytest
from rooms import box_room
from typer.testing import CliRunner

from gym_batchnav.cli import app
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.library.workers import PreparationWorker
from gym_batchnav.scene.save import save_glb

EPISODES = 20


@pytest.fixture
def rooms(tmp_path):
    """A folder of nine rooms."""
    folder = tmp_path / "rooms"
    folder.mkdir()
    save_glb(box_room(), folder / "room_0.glb")
    for number in range(1, 9):
        (folder / f"room_{number}.glb").write_bytes((folder / "room_0.glb").read_bytes())
    return folder


WORDS = ["scene", "prepare", "--num-episodes", str(EPISODES)]


def prepare(rooms, cache, *arguments):
    return CliRunner().invoke(app, [*WORDS, str(rooms), *arguments], env={"GYM_BATCHNAV_CACHE": str(cache)})


def prepared(rooms, cache):
    """The names of the rooms that a run would find prepared in a cache."""
    disk = DiskCache(cache)
    worker = PreparationWorker(NavigationPreparer(num_episodes=EPISODES, cache=disk))
    return {source.name for source in scene_sources(rooms, disk) if worker.is_prepared(source.recipe)}


def test_shards_are_disjoint_and_complete_and_those_beyond_the_number_of_scenes_are_empty(
    rooms, tmp_path, in_this_process
):
    parts = []
    for number in (1, 2, 3, 4):
        cache = tmp_path / f"cache_{number}"
        result = prepare(rooms, cache, "--workers", "1", "--shard", f"{number}/4")
        assert result.exit_code == 0, result.output
        assert f"of shard {number}/4 ready" in " ".join(result.output.split())
        parts.append(prepared(rooms, cache))
    assert sorted(map(len, parts)) == [2, 2, 2, 3]
    assert set.union(*parts) == {f"room_{number}" for number in range(9)}
    result = prepare(rooms, tmp_path / "cache", "--shard", "10/12")
    assert result.exit_code == 0 and prepared(rooms, tmp_path / "cache") == set()
    assert "shard=" in str(prepare(rooms, tmp_path / "cache", "--shard", "5/4").exception)


@pytest.mark.slow
def test_after_a_kill_only_the_rest_is_prepared(rooms, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    arguments = [sys.executable, "-m", "gym_batchnav", *WORDS, str(rooms), "--workers", "1"]
    env = {**os.environ, "GYM_BATCHNAV_CACHE": str(cache)}
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL, env=env) as process:
        while process.poll() is None and not prepared(rooms, cache):
            time.sleep(0.02)
        process.kill()
    time.sleep(1)  # until the worker has noticed
    done = prepared(rooms, cache)
    assert done
    asked = []
    original = PreparationWorker.prepare

    def spy(self, recipe, *rest):
        asked.append(recipe["name"])
        return original(self, recipe, *rest)

    monkeypatch.setattr(PreparationWorker, "prepare", spy)
    result = prepare(rooms, cache, "--workers", "1")
    assert result.exit_code == 0, result.output
    names = {f"room_{number}" for number in range(9)}
    assert set(asked) == names - done and len(asked) == len(set(asked))
    assert prepared(rooms, cache) == names
    asked.clear()
    assert prepare(rooms, cache).exit_code == 0
    assert not asked


def test_refused_scenes_are_in_the_table_and_the_others_are_prepared(rooms, tmp_path, monkeypatch, in_this_process):
    monkeypatch.setenv("COLUMNS", "200")
    (rooms / "room_3.glb").write_bytes(b"glTF but no more")
    (rooms / "tile.obj").write_text("v 0 0 0\nv 0.1 0 0\nv 0 0 -0.1\nf 1 2 3\n")
    result = prepare(rooms, tmp_path / "cache", "--workers", "2")
    assert result.exit_code == 1
    assert "8 of 10 scenes ready" in result.output
    cells = [line.split("│")[1:3] for line in result.output.splitlines() if line.count("│") == 3]
    rows = {}
    last = ""
    for name, reason in cells:  # a long reason goes on in the next row
        last = name.strip() or last
        rows[last] = rows.get(last, "") + reason.strip() + " "
    assert rows.keys() == {"room_3", "tile"}
    assert "cut short" in rows["room_3"] and "no walkable area" in rows["tile"]


def test_the_size_of_the_cache_comes_from_the_environment(rooms, tmp_path, monkeypatch, in_this_process):
    monkeypatch.setenv("GYM_BATCHNAV_CACHE_GB", "0.00003")
    assert DiskCache(tmp_path).max_bytes == 30_000
    result = prepare(rooms, tmp_path / "cache", "--workers", "1")
    assert "The cache is full (3e-05 GB)" in result.output
    assert len(prepared(rooms, tmp_path / "cache")) < 9
    for wrong in ("many", "-1", "nan", "0"):
        monkeypatch.setenv("GYM_BATCHNAV_CACHE_GB", wrong)
        with pytest.raises(ValueError, match="GYM_BATCHNAV_CACHE_GB="):
            DiskCache(tmp_path)
