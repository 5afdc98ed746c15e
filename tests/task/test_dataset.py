import gzip
import json

import numpy as np
import pytest

from gym_batchnav.task.dataset import read_episodes, scene_stem, write_episodes
from gym_batchnav.task.episode import episode_set


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


def test_a_negative_quaternion_is_the_same_rotation(tmp_path):
    rotation = [0, -np.sin(0.4), 0, -np.cos(0.4)]
    (episodes,) = read_episodes(write(tmp_path / "e.json", [row(start_rotation=rotation)])).values()
    np.testing.assert_allclose(episodes.heading, [0.8], atol=1e-6)


def test_a_tilted_start_keeps_its_heading(tmp_path):
    turn, tilt = 0.4, 0.3  # halves of the angles: yaw 0.8, pitch 0.6
    x, y = np.cos(turn) * np.sin(tilt), np.sin(turn) * np.cos(tilt)
    rotation = [x, y, -np.sin(turn) * np.sin(tilt), np.cos(turn) * np.cos(tilt)]
    (episodes,) = read_episodes(write(tmp_path / "e.json", [row(start_rotation=rotation)])).values()
    np.testing.assert_allclose(episodes.heading, [0.8], atol=1e-6)


def test_scenes_are_told_apart_by_the_stem_of_their_id(tmp_path):
    rows = [row(), row(scene_id="/abs/path/Other.basis.glb"), row(scene_id="Cantwell.glb")]
    path = write(tmp_path / "e.json", rows)
    assert {name: len(episodes) for name, episodes in read_episodes(path).items()} == {"Cantwell": 2, "Other": 1}
    assert scene_stem(r"C:\scenes\House.glb") == "House"


def test_an_empty_top_level_file_stands_for_its_content_folder(tmp_path):
    (tmp_path / "content").mkdir()
    write(tmp_path / "content" / "Cantwell.json.gz", [row(), row()])
    write(tmp_path / "content" / "Other.json.gz", [row(scene_id="Other.glb")])
    found = read_episodes(write(tmp_path / "val.json.gz", []))
    assert {name: len(episodes) for name, episodes in found.items()} == {"Cantwell": 2, "Other": 1}


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a Habitat episode file"),
        (b"\x1f\x8b\x08 broken", "not a Habitat episode file"),
        (b"{", "not a Habitat episode file"),
        (b"[]", "not a Habitat episode file"),
        (b'{"episodes": 3}', "list"),
        (b'{"episodes": []}', "no episodes"),
        (json.dumps({"episodes": [row(), row(start_position=[1, 2])]}).encode(), "episode 1"),
        (json.dumps({"episodes": [row(goals=[])]}).encode(), "episode 0"),
        (json.dumps({"episodes": [row(start_position=[1, 2, float("nan")])]}).encode(), "not finite"),
    ],
)
def test_a_file_that_is_no_dataset_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said) as caught:
        read_episodes(path)
    assert "broken.json" in str(caught.value)


def test_truncated_gzip_is_refused(tmp_path):
    path = write(tmp_path / "cut.json.gz", [row()] * 50)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"cut\.json\.gz"):
        read_episodes(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        read_episodes(tmp_path / "none.json")


@pytest.mark.data
def test_habitats_own_file_reads(data_dir):
    (path,) = (data_dir / "scenes" / "pointnav").rglob("*.json*")
    found = read_episodes(path)
    assert sum(len(episodes) for episodes in found.values()) == 30
    assert all(np.isfinite(episodes.distance).all() for episodes in found.values())
