import gzip
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.episodes import habitat as dataset
from gym_batchnav.episodes.episode_set import episode_set
from gym_batchnav.episodes.habitat import read_episodes, scene_name_in, scene_stem, state_of_files, write_episodes


def row(**changes):
    base = {
        "episode_id": "7",
        "scene_id": "data/scene_datasets/gibson/Cantwell.glb",
        "start_position": [1.0, 0.1, 2.0],
        "start_rotation": [0, np.sin(0.4), 0, np.cos(0.4)],
        "info": {"geodesic_distance": 3.5},
        "goals": [{"position": [4.0, 0.1, 2.0], "radius": None}],
    }
    return {**base, **changes}


def write(path, rows):
    text = json.dumps({"episodes": rows})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["episodes.json", "episodes.json.gz"])
def test_episodes_read_as_habitat_means_them(tmp_path, name):
    (episodes,) = read_episodes(write(tmp_path / name, [row()])).values()
    np.testing.assert_allclose(episodes.heading, [0.8], atol=1e-6)  # yaw t is [0, sin t/2, 0, cos t/2]
    np.testing.assert_allclose(episodes.goal, [[4, 0.1, 2]])
    assert episodes.ids == ("7",) and episodes.distance[0] == 3.5


def test_a_tilted_start_keeps_its_heading(tmp_path):
    turn = 0.4  # halves of the angles: yaw 0.8, pitch 0.6
    tilt = 0.3
    x, y = np.cos(turn) * np.sin(tilt), np.sin(turn) * np.cos(tilt)
    rotation = [x, y, -np.sin(turn) * np.sin(tilt), np.cos(turn) * np.cos(tilt)]
    (episodes,) = read_episodes(write(tmp_path / "e.json", [row(start_rotation=rotation)])).values()
    np.testing.assert_allclose(episodes.heading, [0.8], atol=1e-6)


def test_scenes_of_one_stem_are_told_apart_by_their_folders(tmp_path):
    assert scene_stem(r"C:\scenes\House.glb") == "House"
    ids = ["v1/a/room.glb", "v1/b/room.glb", "v1/b/hall.glb", "b/room.glb", "room.glb", r"v1\a\room.basis.glb"]
    rows = [row(scene_id=scene_id, episode_id=k) for k, scene_id in enumerate(ids)]
    found = read_episodes(write(tmp_path / "e.json", rows))
    assert {name: one.ids for name, one in found.items()} == {
        "a/room": ("0", "5"),
        "b/room": ("1", "3"),  # "b/room.glb" can mean no other
        "hall": ("2",),
        "room": ("4",),  # but "room.glb" can
    }


def test_a_scene_finds_its_episodes_by_the_longest_end_it_shares():
    names = ["a/room", "b/room", "c/b/room", "hall"]
    for aliases, name in (
        (["room", "/home/me/a/room.glb"], "a/room"),
        (["a/room"], "a/room"),
        (["room", "/x/c/b/room.obj"], "c/b/room"),
        (["hall"], "hall"),
        (["hall", "/d/hall.glb"], "hall"),
        (["attic", "/a/attic.glb"], None),
        (["xroom"], None),
    ):
        assert scene_name_in(names, aliases) == name
    with pytest.raises(ValueError, match=r"several of this name \(b/room, c/b/room\)"):
        scene_name_in(names, ["room", "/x/b/room.obj"])
    with pytest.raises(ValueError, match=r"\(a/room, b/room, c/b/room\): pass the scene's path"):
        scene_name_in(names, ["room", "/elsewhere/room.glb"])


@given(st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join), min_size=1, max_size=8))
def test_no_two_scenes_are_merged_unless_one_id_is_the_end_of_the_other(ids):
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(scene_id=one, episode_id=one) for one in sorted(ids)]
        found = read_episodes(write(Path(folder) / "e.json", rows))
    assert sorted(one for episodes in found.values() for one in episodes.ids) == sorted(ids)
    for name, episodes in found.items():
        whole = max(episodes.ids, key=len)
        assert all(f"/{whole}".endswith(f"/{one}") for one in episodes.ids) and f"/{whole}".endswith(f"/{name}")


def test_small_files_that_stand_for_much_are_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "bomb.json.gz", [row()] * 1000)
    (tmp_path / "content").mkdir()
    for k in range(5):
        write(tmp_path / "content" / f"{k}.json.gz", [row()] * 100)
    several = write(tmp_path / "val.json.gz", [])
    for file, name, limit, said in (
        (path, "MAX_BYTES", 10_000, r"bomb\.json\.gz: .*more than 10,000 bytes"),
        (path, "MAX_ITEMS", 5000, r"bomb\.json\.gz: .*the limit is 5,000"),
        (several, "MAX_TOTAL_BYTES", 50_000, r"\d\.json\.gz: .*50,000"),
        (several, "MAX_TOTAL_ITEMS", 5000, r"\d\.json\.gz: .*5,000"),
    ):
        with monkeypatch.context() as patch, pytest.raises(ValueError, match=said):
            patch.setattr(dataset, name, limit)
            read_episodes(file)
    assert len(read_episodes(path)["Cantwell"]) == 1000 and len(read_episodes(several)["Cantwell"]) == 500


def test_an_empty_file_stands_for_its_content_folder_whose_episodes_keep_their_order(tmp_path):
    (tmp_path / "content").mkdir()
    for k in range(2):
        rows = [
            row(scene_id=f"{path}b/room.glb", start_position=[2 * k + i, 0, 0]) for i, path in enumerate(("v1/", ""))
        ]
        for one in rows:
            del one["episode_id"]
        write(tmp_path / "content" / f"{k}.json", rows)
    val = write(tmp_path / "val.json", [])
    (found,) = read_episodes(val).values()
    assert found.ids == ("0", "1", "2", "3") and found.start[:, 0].tolist() == [0, 1, 2, 3]
    write(tmp_path / "content" / "Other.json.gz", [row(scene_id="Other.glb")])
    assert {name: len(episodes) for name, episodes in read_episodes(val).items()} == {"room": 4, "Other": 1}
    assert list(read_episodes(val, "Other")) == ["Other"]


def test_what_is_written_reads_back_and_is_the_same_bytes_each_time(tmp_path):
    rng = np.random.default_rng(0)
    goals = rng.normal(size=(5, 3))[[0, 1, 1, 2, 3, 4, 4]]
    episodes = episode_set(rng.normal(size=(7, 3)), rng.uniform(-3, 3, 7), goals, rng.uniform(1, 9, 7))
    assert len(episodes.goals) == 5  # equal goals are shared
    write_episodes({"home.glb": episodes}, tmp_path / "a.json.gz")
    write_episodes({"home.glb": episodes}, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    again = read_episodes(tmp_path / "a.json.gz")["home"]
    for name in ("start", "goal", "distance"):
        np.testing.assert_array_equal(getattr(again, name), getattr(episodes, name))
    np.testing.assert_allclose(again.heading, episodes.heading, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json.gz", "b.json.gz"]


@pytest.mark.parametrize(("name", "pack"), [("plain.json.gz", bytes), ("packed.json", gzip.compress)])
def test_a_file_is_read_whatever_its_name_says_about_compression(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(json.dumps({"episodes": [row()]}).encode()))
    assert len(read_episodes(tmp_path / name)) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty: copy or download it again"),
        (b"version https://git-lfs.github.com/spec/v1", "run git lfs pull"),
        (b"\x1f\x8b\x08 broken", "not a Habitat episode file"),
        (gzip.compress(json.dumps({"episodes": [row()] * 50}).encode())[:-40], "not a Habitat episode file"),
        (b"{", "not a Habitat episode file"),
        (b"[" * 100_000, "not a Habitat episode file"),
        (b"[]", "not a Habitat episode file"),
        (b'{"episodes": 3}', "list"),
        (b'{"episodes": []}', "nor a folder content/ next to it has episodes"),
        (json.dumps({"episodes": [row(), row(start_position=[1, 2])]}).encode(), "episode 1"),
        (json.dumps({"episodes": [row(goals=[])]}).encode(), r"malformed: goals is \[\]: pass a list of one"),
        (json.dumps({"episodes": [row(goals=[{}])]}).encode(), r"goals\[0\].position is missing"),
        (json.dumps({"episodes": [row(start_position=[10**400, 0, 0])]}).encode(), r"start_position is \[1000.*finite"),
        (json.dumps({"episodes": [row(start_rotation="none")]}).encode(), 'start_rotation is "none"'),
        (json.dumps({"episodes": [row(info={"geodesic_distance": 10**400})]}).encode(), "episode 0 is malformed"),
        (json.dumps({"episodes": [row(info={"geodesic_distance": "x" * 5000})]}).encode(), r"float: \[\.\.\.\]$"),
        (json.dumps({"episodes": [row(info=[3.5])]}).encode(), r"episode 0 is malformed: info is \[3.5\]"),
        (b'{"episodes": [' + b"1" * 5000 + b"]}", "broken"),
        (json.dumps({"episodes": [row(object_category="chair")]}).encode(), "ObjectNav .*pass task=ObjectNav"),
        (b'{"episodes": [], "goals_by_category": {}}', "episodes of ObjectNav"),
        (json.dumps({"episodes": [row(instruction={})]}).encode(), "vision-and-language"),
        (json.dumps({"episodes": [row(scene_id="a/" * 3000 + "b")]}).encode(), "over 64 folders"),
        (json.dumps({"episodes": [row(start_position=[1, 2, float("nan")])]}).encode(), "finite"),
        (json.dumps({"episodes": [{**row(), "scene_id": ""}]}).encode(), "episode 0: scene_id is missing"),
        (json.dumps({"episodes": [{**row(), "scene_id": None}]}).encode(), "episode 0: scene_id is missing"),
    ],
)
def test_a_file_that_is_no_dataset_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said) as caught:
        read_episodes(path)
    assert "broken.json" in str(caught.value)


def test_what_is_not_a_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        read_episodes(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match=r"none\.json: the file does not exist: pass the path"):
        state_of_files(tmp_path / "none.json")
    (tmp_path / "scores.json").write_text('{"episodes": 3}')
    (tmp_path / "gone.json").symlink_to(tmp_path / "annexed.json")
    with pytest.raises(ValueError, match="it is a folder: pass a"):
        state_of_files(tmp_path)
    (tmp_path / "content").mkdir()
    os.mkfifo(tmp_path / "content" / "a.json.gz")
    with pytest.raises(ValueError, match=r"a\.json\.gz: it is not a regular file"):
        read_episodes(write(tmp_path / "val.json", []))


@pytest.mark.data
def test_habitats_own_file_reads(data_dir):
    (path,) = (data_dir / "scenes" / "pointnav").rglob("*.json*")
    found = read_episodes(path)
    assert sum(len(episodes) for episodes in found.values()) == 30
    assert all(np.isfinite(episodes.distance).all() for episodes in found.values())
