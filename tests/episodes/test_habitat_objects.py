"""Habitat's ObjectNav datasets: written, read, fitted and refused."""

import gzip
import json

import numpy as np
import pytest
from furnished import CATEGORIES, CRATES, furnished

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.episodes import habitat_objects
from gym_batchnav.episodes.fitting import fit_object_episodes
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.episodes.habitat_objects import read_object_episodes, write_object_episodes
from gym_batchnav.episodes.objects import find_instances, sample_object_episodes
from gym_batchnav.evaluation.agents import ObjectOracleAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav


@pytest.fixture(scope="module")
def sampled():
    scene = furnished()
    mesh = NavMesh.build(scene.vertices, scene.triangles)
    instances = find_instances(scene, mesh, CATEGORIES)
    return mesh, instances, sample_object_episodes(mesh, instances, CATEGORIES, 25, np.random.default_rng(0))


@pytest.fixture
def file(sampled, tmp_path):
    path = tmp_path / "objects.json.gz"
    write_object_episodes({"rooms/furnished.glb": (sampled[2], sampled[1])}, path)
    return path


def changed(path, change):
    """Write a changed copy of a dataset and return its path."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    change(document)
    copy = path.with_name("changed.json")
    copy.write_text(json.dumps(document))
    return copy


def test_written_episodes_are_read_again(sampled, file):
    mesh, _, episodes = sampled
    read = fit_object_episodes(read_object_episodes(file, CATEGORIES)["furnished"], mesh, "file")
    assert read.ids == episodes.ids and read.categories == CATEGORIES
    for name in ("start", "heading", "distance", "goal", "target"):
        np.testing.assert_allclose(getattr(read, name), getattr(episodes, name), atol=2e-3)
    np.testing.assert_array_equal(read.category, episodes.category)
    for row in range(25):
        mine, theirs = (
            {tuple(goal) for goal in one.goals[slice(*one.first_goal[one.goal_index[row] :][:2])]}
            for one in (read, episodes)
        )
        assert mine == theirs
    found = read_object_episodes(file)["furnished"].categories  # in their order
    assert found == tuple(dict.fromkeys(CATEGORIES[category] for category in episodes.category))


def test_the_file_has_habitats_fields(file):
    document = json.loads(gzip.decompress(file.read_bytes()))
    assert set(document) == {
        "episodes", "category_to_task_category_id", "category_to_scene_annotation_category_id", "goals_by_category",
    }  # fmt: skip
    row = document["episodes"][0]
    assert row["goals"] == [] and row["object_category"] in ("table", "crate")
    goals = document["goals_by_category"][f"furnished.glb_{row['object_category']}"]
    assert row["info"]["closest_goal_object_id"] in {goal["object_id"] for goal in goals}
    crates = document["goals_by_category"]["furnished.glb_crate"]
    assert [goal["object_name"] for goal in crates] == ["crate_1", "crate_2"]
    view = crates[0]["view_points"][0]
    x, y, z, w = view["agent_state"]["rotation"]
    ahead = np.array([-2 * (x * z + w * y), 0, -(1 - 2 * (x * x + y * y))])  # -z, rotated by the quaternion
    towards = np.mean(CRATES["crate_1"], axis=0) - view["agent_state"]["position"]
    towards[1] = 0
    np.testing.assert_allclose(ahead, towards / np.linalg.norm(towards), atol=1e-5)
    assert 0 < view["iou"] <= 1


def test_an_environment_runs_a_file(file):
    keywords = {"scenes": [furnished()], "sensors": (), "episodes": file}
    env = BatchNavEnv(4, task=ObjectNav(CATEGORIES), **keywords)
    episodes = evaluate(env, ObjectOracleAgent())
    assert len(episodes) == 25 and episodes.success.all()
    env.close()
    said = r"episode \d+: object_category 'crate' is .* the file: 'table', 'crate', 'lamp'$"
    with pytest.raises(ValueError, match=said):
        BatchNavEnv(4, task=ObjectNav(("table",)), **keywords)
    with pytest.raises(ValueError, match=r"episodes of ObjectNav.*pass task=ObjectNav\(\), to commands .*env_keywords"):
        BatchNavEnv(4, **keywords)
    with pytest.raises(ValueError, match=r"TourEpisodes.* reads no file: leave"):
        BatchNavEnv(4, task=MultiGoalNav(), **keywords)


def test_goals_may_be_part_of_the_episodes(sampled, file):
    def move(document):
        goals = document.pop("goals_by_category")
        for row in document["episodes"]:
            row["goals"] = goals[f"furnished.glb_{row['object_category']}"]

    old = read_object_episodes(changed(file, move), CATEGORIES)["furnished"]
    read = fit_object_episodes(old, sampled[0], "file")
    np.testing.assert_allclose(read.distance, sampled[2].distance, atol=2e-3)


def test_episodes_of_one_category_may_have_their_own_goals(file):
    def shift(document):  # the same object twice, 1 m apart
        row = document["episodes"][0]
        goals = document["goals_by_category"][f"furnished.glb_{row['object_category']}"][:1]
        moved = json.loads(json.dumps(goals))
        moved[0]["position"][0] += 1.0
        document["episodes"] = [dict(row, goals=goals), dict(row, goals=moved)]

    first, second = read_object_episodes(changed(file, shift), CATEGORIES)["furnished"].target
    np.testing.assert_allclose(second - first, [1, 0, 0], atol=1e-5)


def test_a_scene_may_have_a_path_of_windows(sampled, tmp_path):
    path = tmp_path / "objects.json.gz"
    write_object_episodes({"rooms\\furnished.glb": (sampled[2], sampled[1])}, path)
    assert len(read_object_episodes(path, CATEGORIES)["furnished"].start) == 25


def test_scenes_of_the_same_file_name_are_refused(sampled, tmp_path):
    entry = (sampled[2], sampled[1])
    with pytest.raises(ValueError, match=r"scenes 'a/room\.glb' and 'b/room\.glb' have the same file name"):
        write_object_episodes({"a/room.glb": entry, "b/room.glb": entry}, tmp_path / "objects.json.gz")


def test_scenes_are_read_from_the_content_folder(file, tmp_path):
    (tmp_path / "content").mkdir()
    file.rename(tmp_path / "content" / "furnished.json.gz")
    (tmp_path / "val.json").write_text('{"episodes": [], "category_to_task_category_id": {"crate": 0}}')
    assert len(read_object_episodes(tmp_path / "val.json", CATEGORIES)["furnished"]) == 25
    (tmp_path / "content" / "another.json.gz").write_bytes(b"not read")
    assert len(read_object_episodes(tmp_path / "val.json", CATEGORIES, "furnished")["furnished"]) == 25


def test_a_folder_is_written_in_habitats_layout_and_scenes_are_added(sampled, tmp_path, monkeypatch):
    entry, val = (sampled[2], sampled[1]), tmp_path / "v1" / "val"
    for room in ("a/first.basis.glb", "second.glb"):
        write_object_episodes({room: entry}, val)
    document = json.loads(gzip.decompress((val / "val.json.gz").read_bytes()))
    assert document["episodes"] == [] and list(document["category_to_task_category_id"]) == list(CATEGORIES)
    assert {file.name for file in val.rglob("*.*")} == {"val.json.gz", "first.json.gz", "second.json.gz"}
    assert set(read_object_episodes(val / "val.json.gz", CATEGORIES)) == {"first", "second"}
    with pytest.raises(ValueError, match=r"val': it is a folder: pass '.*val\.json\.gz'"):
        Episodes(val)
    (tmp_path / "own").mkdir()
    write_episodes({"room.glb": sampled[2]}, tmp_path / "own" / "own.json.gz")
    for other in (val, tmp_path / "own"):  # episodes of another task, or outside content/
        with pytest.raises(ValueError, match="is there already and differs"):
            write_episodes({"room.glb": sampled[2]}, other)
    monkeypatch.setattr(habitat_objects, "_goal_of", lambda *_: {1})  # cannot be written
    with pytest.raises(TypeError):
        write_object_episodes({"third.glb": entry}, tmp_path / "test")
    assert not [file for file in (tmp_path / "test").rglob("*") if file.name != "content"]


def test_view_points_off_the_navmesh_are_left_out(sampled, file):
    def move(document):
        for view in document["goals_by_category"]["furnished.glb_crate"][0]["view_points"]:
            view["agent_state"]["position"][1] += 9.0

    mesh, instances, episodes = sampled
    with pytest.warns(UserWarning, match="the distance to the goal is not that of the file"):
        read = fit_object_episodes(read_object_episodes(changed(file, move), CATEGORIES)["furnished"], mesh, "file")
    assert len(read) == 25 and len(read.goals) == len(episodes.goals) - len(instances[1].points)
    crates = read.category == 1
    assert (read.distance[crates] >= episodes.distance[crates] - 1e-3).all()
    np.testing.assert_allclose(read.target[crates], np.tile(instances[2].center, (crates.sum(), 1)), atol=1e-6)


ROW = {"start_position": [0, 0, 0], "start_rotation": [0, 0, 0, 1], "goals": [{"position": [1, 0, 0]}]}  # of PointNav


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.update(goals_by_category=[]), "goals_by_category is \\[\\]"),
        (lambda d: d["goals_by_category"].clear(), "is missing: give a list of objects"),
        (lambda d: [goal.clear() for goal in d["goals_by_category"]["furnished.glb_crate"]], "position of a goal"),
        (lambda d: [g.update(view_points=[]) for g in d["goals_by_category"]["furnished.glb_crate"]], "no view points"),
        (lambda d: d["episodes"][0].update(goals=3), "malformed: goals is 3"),
        (lambda d: [g.update(view_points=[{}]) for g in d["goals_by_category"]["furnished.glb_crate"]], "agent_state"),
        (lambda d: [g.update(view_points=3) for g in d["goals_by_category"]["furnished.glb_crate"]], "malformed"),
        (lambda d: d["episodes"][3].update(object_category=None), "episode 3 is malformed: object_category is missing"),
        (lambda d: d["episodes"][3].update(scene_id="a/" * 99), "episode 3 .*over 64 folders"),
        (lambda d: d["episodes"].clear(), "nor a folder content/ next to it has episodes"),
        (lambda d: [d.clear(), d.update(episodes=[ROW])], "the file is not an ObjectNav dataset"),
    ],
)
def test_damaged_files_are_refused_by_name(file, change, match):
    copy = changed(file, change)
    with pytest.raises(ValueError, match=match) as caught:
        read_object_episodes(copy, CATEGORIES)
    assert str(copy) in str(caught.value)


def test_episodes_that_share_too_many_view_points_are_refused(file, monkeypatch):
    monkeypatch.setattr(habitat_objects, "MAX_PAIRS", 24)
    with pytest.raises(ValueError, match=r"the 25 episodes in scene 'furnished' have .* view points to compare"):
        read_object_episodes(file, CATEGORIES)
