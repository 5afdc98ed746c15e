import warnings
from dataclasses import replace

import numpy as np
import pytest
from rooms import box, box_room, scene_of

from gym_batchnav.episodes.episode_set import episode_set
from gym_batchnav.episodes.fitting import fit_episodes
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.episodes.sampling import SamplingRules, _compatible_pairs, _path_length_bound, sample_episodes
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings


def build(scene):
    return NavMesh.build(scene.vertices, scene.triangles, NavMeshSettings())


@pytest.fixture(scope="module")
def navmesh():
    return build(box_room())


@pytest.fixture(scope="module")
def episodes(navmesh):
    return sample_episodes(navmesh, 500, np.random.default_rng(0))


def test_starts_and_goals_are_navigable_and_their_distance_is_geodesic(navmesh, episodes):
    assert navmesh.is_navigable(episodes.start).all() and navmesh.is_navigable(episodes.goal).all()
    np.testing.assert_allclose(navmesh.geodesic_distance(episodes.start, episodes.goal), episodes.distance, atol=1e-4)
    assert episodes.distance.min() >= 1 and episodes.distance.max() <= 30


def test_straight_pairs_are_as_rare_as_habitat_makes_them():
    """Among pairs with ratio 1 the rule keeps 20 (1 - 0.98)^2 = 0.8%, up to ten starts are tried for each goal."""
    room = box((-4, 0, -4), (4, 2.6, 4), inward=True)  # nothing in the way: every pair is straight
    empty = build(scene_of("empty", room))
    tries = 20_000
    kept = len(_compatible_pairs(empty, tries, np.random.default_rng(0), SamplingRules(), None)[0])
    fitting = 0.95  # of the pairs in an 8 m square are more than 1 m apart
    assert kept / tries == pytest.approx(1 - (1 - 0.008 * fitting) ** 10, rel=0.1)


def test_a_scene_without_room_for_episodes_says_so():
    cell = scene_of("cell", box((0, 0, 0), (1.2, 2.6, 1.2), inward=True))
    with pytest.raises(ValueError, match="radius"):
        sample_episodes(build(cell), 10, np.random.default_rng(0))


def test_wrong_rules_and_distances_beyond_any_path_are_refused_without_sampling(navmesh):
    class NoDraws:
        def __getattr__(self, name):
            raise AssertionError("no point is drawn")

    for wrong in ({"max_distance": "far"}, {"retries": 0}, {"min_distance": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            SamplingRules(**wrong)
    with pytest.raises(ValueError, match=r"min_distance=10000: no path .* longer than \d+\.\d+ m; lower it"):
        sample_episodes(navmesh, 5, NoDraws(), SamplingRules(min_distance=10_000, max_distance=20_000))
    points = navmesh.random_points(1000, np.random.default_rng(0))
    distances = navmesh.geodesic_distance(points[:500], points[500:])
    assert _path_length_bound(navmesh) > distances[np.isfinite(distances)].max()


def test_distances_that_almost_no_pair_has_are_refused_before_all_episodes_are_found(navmesh):
    rules = SamplingRules(max_distance=1.0005, straight_ratio=1.0)
    with pytest.raises(ValueError, match=r"[0-9] of \d\d\d,... pairs of points lie 1 to 1\.0005 m apart"):
        sample_episodes(navmesh, 1000, np.random.default_rng(0), rules)


def test_episodes_across_islands_are_left_out_with_one_warning():
    """Two rooms without a door: half of the pairs of a file cannot be walked."""
    rooms = scene_of("rooms", box((0, 0, 0), (4, 2.6, 4), inward=True), box((4.2, 0, 0), (8, 2.6, 4), inward=True))
    navmesh = build(rooms)
    start = np.array([[1, 0, 1], [1, 0, 1], [7, 0, 1], [500, 0, 1]], float)
    goal = np.array([[3, 0, 3], [7, 0, 1], [5, 0, 3], [1, 0, 1]], float)
    episodes = episode_set(start, np.zeros(4), goal, np.full(4, np.nan))
    said = r"left out 2 of 4 episodes \(ids 1, 3\): 1 start or end .* of this agent, 1 have no path to their goal"
    with pytest.warns(UserWarning, match=said):
        fitting = fit_episodes(episodes, navmesh, "file")
    np.testing.assert_allclose(fitting.distance, [8**0.5, 8**0.5], atol=0.02)
    assert fitting.ids == ("0", "2")
    with pytest.raises(ValueError, match=r"left out 1 of 1 .*use the scene, .* navmesh or navmesh_settings="):
        fit_episodes(episode_set(start[3:], np.zeros(1), goal[3:], np.ones(1)), navmesh, "file")


def test_episodes_of_another_scene_with_the_same_name_are_told_by_their_distances():
    """A room of 6 m, and one with a wall across it, through whose door paths are longer."""
    room = box((0, 0, 0), (6, 2.6, 6), inward=True)
    start = np.array([[1, 0, 1], [1, 0, 2], [5, 0, 5.5]], float)
    goal = np.array([[5, 0, 1], [5, 0, 2], [1, 0, 5.5]], float)
    episodes = episode_set(start, np.zeros(3), goal, np.full(3, 4.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_episodes(episodes, build(scene_of("room", room)), "file")
    divided = build(scene_of("divided", room, box((2.9, 0, 0), (3.1, 2.6, 5))))
    said = r"in 2 of 3 episodes, the distance to the goal is not that of the file \(\d\.\d\d instead of 4\.00 m"
    with pytest.warns(UserWarning, match=said):
        assert len(fit_episodes(episodes, divided, "file")) == 3


def test_episodes_of_a_smaller_agent_are_left_out_by_name():
    """A start 0.3 m from a wall: radius 0.2 m fits there, 0.4 m is moved by 0.1 m, and 1.2 m would start elsewhere."""
    room = scene_of("room", box((0, 0, 0), (6, 2.6, 6), inward=True))
    start = np.array([[0.3, 0, 3], [3, 0, 3]], float)
    goal = np.array([[3, 0, 3], [3, 0, 4]], float)
    episodes = episode_set(start, np.zeros(2), goal, np.full(2, np.nan), ("by the wall", "in the middle"))
    small = NavMesh.build(room.vertices, room.triangles, NavMeshSettings(agent_radius=0.2))
    assert fit_episodes(episodes, small, "file").ids == episodes.ids
    medium = NavMesh.build(room.vertices, room.triangles, NavMeshSettings(agent_radius=0.4))
    with pytest.warns(UserWarning, match=r"in 1 of 2 episodes, the start or goal was off .* moved, by up to 0\.1"):
        assert fit_episodes(episodes, medium, "file").ids == episodes.ids
    large = NavMesh.build(room.vertices, room.triangles, NavMeshSettings(agent_radius=1.2))
    with pytest.warns(UserWarning, match=r"left out 1 of 2 episodes \(ids by the wall\): 1 start or end more than"):
        assert fit_episodes(episodes, large, "file").ids == ("in the middle",)


def test_scenes_of_one_stem_get_their_own_episodes(tmp_path, episodes):
    ids = {"v1/a/room.glb": 5, "v1/b/room.glb": 7}
    parts = {
        scene_id: episode_set(*(getattr(episodes, name)[:count] for name in ("start", "heading", "goal", "distance")))
        for scene_id, count in ids.items()
    }
    write_episodes(parts, tmp_path / "episodes.json.gz")
    preparer = NavigationPreparer(NavMeshSettings(), tmp_path / "episodes.json.gz", cache=DiskCache(tmp_path))
    for folder, count in (("a", 5), ("b", 7)):
        assert len(preparer(replace(box_room(), metadata={"path": f"/home/me/{folder}/room.glb"})).episode_set) == count
    with pytest.raises(ValueError, match=r"json\.gz', scene 'room': the dataset has several .*a/room, b/room"):
        preparer(box_room())


@pytest.mark.parametrize("ending", ["glb", "scene_instance.json"])
def test_episodes_beside_a_scene_are_found_by_its_name(tmp_path, navmesh, episodes, ending):
    write_episodes({"home.glb": episodes}, tmp_path / "home.json.gz")
    scene = replace(box_room(), name="home", metadata={"path": str(tmp_path / f"home.{ending}")})
    assert len(NavigationPreparer(num_episodes=3).episodes(scene, navmesh)) == len(episodes)


def test_a_part_of_a_dataset_that_changes_is_read_anew(tmp_path, navmesh, episodes):
    def few(count):
        columns = (getattr(episodes, name)[:count] for name in ("start", "heading", "goal", "distance"))
        return {"room.glb": episode_set(*columns)}

    write_episodes({}, tmp_path / "val.json.gz")
    preparer = NavigationPreparer(episode_file=tmp_path / "val.json.gz")
    (tmp_path / "content").mkdir()
    for count in (5, 7):
        write_episodes(few(count), tmp_path / "content" / "some.json.gz")
        assert len(preparer.episodes(box_room(), navmesh)) == count
    write_episodes(few(2), tmp_path / "content" / "more.json.gz")
    assert len(preparer.episodes(box_room(), navmesh)) == 9
    for count in (3, 4):
        write_episodes(few(count), tmp_path / "content" / "room.json.gz")
        assert len(preparer.episodes(box_room(), navmesh)) == count


def test_of_a_large_dataset_only_the_file_of_the_scene_is_read(tmp_path, navmesh, episodes):
    (tmp_path / "content").mkdir()
    write_episodes({}, tmp_path / "train.json.gz")
    write_episodes({"data/hm3d/00800-room/room.basis.glb": episodes}, tmp_path / "content" / "room.json.gz")
    (tmp_path / "content" / "other.json.gz").write_bytes(b"not read")
    preparer = NavigationPreparer(episode_file=tmp_path / "train.json.gz")
    for metadata in ({}, {"path": str(tmp_path / "00800-room" / "room.basis.glb")}):
        scene = replace(box_room(), name="room", metadata=metadata)
        assert len(preparer.episodes(scene, navmesh)) == len(episodes)
    # A file that is named after a scene and has another's episodes is one of many.
    write_episodes({"castle.glb": episodes}, tmp_path / "content" / "other.json.gz")
    write_episodes({"other.glb": episodes}, tmp_path / "content" / "rest.json.gz")
    assert len(preparer.episodes(replace(box_room(), name="other"), navmesh)) == len(episodes)
    # A file without episodes says as little as none.
    write_episodes({}, tmp_path / "content" / "room.json.gz")
    with pytest.raises(
        ValueError, match=r"^episodes='.*json\.gz' has no episode for scene 'room', only for castle, other"
    ):
        preparer.episodes(box_room(), navmesh)


def test_errors_of_an_episode_file_name_the_keyword(tmp_path, navmesh):
    file = tmp_path / "room.json.gz"
    preparer = NavigationPreparer(episode_file=file)
    with pytest.raises(FileNotFoundError, match=r"^episodes= cannot be used: .*room\.json\.gz"):
        preparer.episodes(box_room(), navmesh)
    file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^episodes= cannot be used: .*room\.json\.gz"):
        preparer.episodes(box_room(), navmesh)
    beside = replace(box_room(), metadata={"path": str(tmp_path / "room.glb")})
    with pytest.raises(ValueError, match=r"^(?!episodes=).*room\.json\.gz"):
        NavigationPreparer().episodes(beside, navmesh)


def test_a_scene_that_nobody_can_walk_in_is_refused_by_name(tmp_path):
    wall = scene_of("wall", box((0, 0, 0), (0.02, 3, 5)))
    with pytest.raises(ValueError, match=r"'wall'.*walkable"):
        NavigationPreparer(NavMeshSettings(), cache=DiskCache(tmp_path))(wall)


def test_other_geometry_gets_another_navmesh_though_the_scene_has_the_same_name(tmp_path):
    preparer = NavigationPreparer(cache=DiskCache(tmp_path))
    for width in (8, 10):
        assert np.ptp(preparer.navmesh(box_room(width=width)).vertices[:, 0]) == pytest.approx(width, abs=0.5)


def test_what_was_prepared_is_recalled_from_the_cache_until_it_is_damaged(tmp_path, monkeypatch):
    scene = box_room()
    preparer = NavigationPreparer(num_episodes=20, cache=DiskCache(tmp_path))
    first = preparer(scene)

    def never(*arguments):
        raise AssertionError("computed again")

    with monkeypatch.context() as patched:
        patched.setattr(NavMesh, "build", never)
        patched.setattr("gym_batchnav.navmesh.mesh.make_corners", never)
        patched.setattr("gym_batchnav.navmesh.mesh.make_cells", never)
        again = preparer(scene)
    np.testing.assert_array_equal(again.episode_set.distance, first.episode_set.distance)
    np.testing.assert_array_equal(again.tables.cells.listed, first.tables.cells.listed)
    for entry in tmp_path.iterdir():
        entry.write_bytes(entry.read_bytes()[:-100])
    np.testing.assert_array_equal(preparer(scene).episode_set.distance, first.episode_set.distance)
