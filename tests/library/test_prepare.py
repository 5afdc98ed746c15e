"""Entries of the cache that do not validate are made again and never an error."""

from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from generated import home
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.episodes import samplers
from gym_batchnav.episodes.episode_set import episode_set
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.library.workers import prepare_scene
from gym_batchnav.scene.save import save_glb
from gym_batchnav.system import progress
from gym_batchnav.task.pointnav import PointNav

PER_EPISODE = ("start", "heading", "tour", "leg_distance", "nearest_goal", "view_index", "category")


def put(value, place=0):
    """A change that writes a value into an array, flat."""

    def change(array):
        array.flat[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("navmesh-", (put(10**6), "polygons")),
        ("navmesh-", (put(10**6), "detail_triangles")),
        ("navmesh-", (put(-1), "polygons")),
        ("navmesh-", (lambda array: array.astype(np.int64), "polygons")),
        ("geodesics-", (lambda array: array.astype(np.bool_), "grid")),
        ("geodesics-", (lambda array: array.reshape(-1), "between")),
        ("geodesics-", (put(0.0, 2), "frame")),
        ("geodesics-", (put(np.nan, -1), "between")),
        ("geodesics-", (put(-1.0, -1), "between")),
        ("geodesics-", (put(np.inf, -1), "point")),
        ("episodes-", (put(np.nan, 2), "goals")),
        ("episodes-", (put(3.0, 1), "start")),
        ("episodes-", (put(0.01), "leg_distance")),
        ("episodes-", (lambda array: array[:3], *PER_EPISODE)),
        ("episodes-", (put(-1), "nearest_goal")),
        ("episodes-", (lambda array: array.astype(np.float16), "start")),
    ],
)
def test_a_wrong_value_in_an_entry_is_found(tmp_path, monkeypatch, kind, change):
    make, *names = change
    preparer = NavigationPreparer(num_episodes=5, cache=DiskCache(tmp_path))
    scene = box_room("room")
    first = preparer(scene)
    load = DiskCache.load
    changed = []

    def damaged(self, key):
        arrays = load(self, key)
        if not key.startswith(kind):
            return arrays
        changed.extend(names)
        return {**arrays, **{name: make(arrays[name].copy()) for name in names}}

    monkeypatch.setattr(DiskCache, "load", damaged)
    again = preparer(scene)
    assert changed == names
    for name in ("start", "goals", "distance"):
        np.testing.assert_array_equal(getattr(again.episode_set, name), getattr(first.episode_set, name))
    np.testing.assert_array_equal(again.navmesh.polygons, first.navmesh.polygons)
    for name, array in first.navmesh.geodesic_arrays().items():
        np.testing.assert_array_equal(again.navmesh.geodesic_arrays()[name], array)


def test_sound_episodes_are_taken_from_the_cache(tmp_path, monkeypatch):
    preparer = NavigationPreparer(num_episodes=30, cache=DiskCache(tmp_path))
    scene = home()
    first = preparer(scene)
    monkeypatch.setattr(samplers, "sample_episodes", lambda *_: pytest.fail("drawn again"))
    np.testing.assert_array_equal(preparer(scene).episode_set.goal, first.episode_set.goal)


@dataclass(frozen=True)
class Pacing:
    """Episodes between two points of a room, at a distance that the class decides."""

    name: str = "pacing"

    metres = 1.0

    def sample(self, scene, navmesh, num_episodes, rng):
        start = navmesh.snap(np.tile(np.float32([0.6, 0, 2.0]), (num_episodes, 1)))
        goal = navmesh.snap(start + np.float32([self.metres, 0, 0]))
        return episode_set(start, np.zeros(num_episodes), goal, np.linalg.norm(goal - start, axis=1))


@dataclass(frozen=True)
class Pace(PointNav):
    sampler = Pacing()


def test_the_episodes_of_a_users_sampler_are_not_cached(tmp_path, monkeypatch):
    preparer = NavigationPreparer(num_episodes=3, cache=DiskCache(tmp_path), sampler=Pacing())
    scene = box_room("room")
    np.testing.assert_allclose(preparer(scene).episode_set.distance, 1, atol=1e-3)
    monkeypatch.setattr(Pacing, "metres", 2.0)
    np.testing.assert_allclose(preparer(scene).episode_set.distance, 2, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"goals": np.full((1, 3), 90, np.float32)}, "nowhere near the navmesh"),
        ({"tour": np.full((3, 1), 7, np.int32)}, "tour must lie in"),
        ({"heading": np.zeros(3)}, "heading is float64"),
        ({"leg_distance": np.full((3, 1), 0.1, np.float32)}, "a leg_distance below that of the straight line"),
    ],
)
def test_impossible_episodes_of_a_users_sampler_are_refused_by_name(tmp_path, change, message):
    class Wrong(Pacing):
        def sample(self, *arguments):
            return replace(super().sample(*arguments), **change)

    preparer = NavigationPreparer(num_episodes=3, cache=DiskCache(tmp_path), sampler=Wrong())
    with pytest.raises(ValueError, match=rf"room.*Wrong.*{message}"):
        preparer(box_room("room"))


def test_a_batch_runs_the_episodes_of_a_users_sampler(tmp_path):
    """Scenes of files, which workers prepare: three of them, since one or two are prepared in this process."""
    for index in range(3):
        save_glb(box_room(f"room_{index}"), tmp_path / f"room_{index}.glb")
    env = BatchNavEnv(3, scenes=tmp_path, task=Pace(), sensors=(), episodes=4)
    env.reset(seed=0)
    np.testing.assert_allclose(env.episodes.distance, 1, atol=1e-3)
    assert env.num_episodes == 12
    env.close()


@pytest.mark.parametrize("sampler", [Pacing, "points", None, 3])
def test_a_task_without_a_sampler_is_refused_by_name(sampler):
    task = type("Odd", (PointNav,), {"sampler": sampler})()
    with pytest.raises(ValueError, match=r"sampler=.* of Odd: pass an object with a method sample"):
        BatchNavEnv(1, task=task)


@pytest.mark.parametrize("sampler", [samplers.PointEpisodes(), FlightEpisodes()], ids=["walks", "flies"])
def test_a_seed_samples_other_episodes_of_the_same_scene(tmp_path, sampler):
    save_glb(box_room("den"), tmp_path / "den.glb")
    scene = scene_sources(str(tmp_path / "den.glb"))[0].load()

    def starts(seed, cache, num_episodes=5):
        return NavigationPreparer(None, None, num_episodes, cache, sampler, seed=seed)(scene).episode_set.start.tolist()

    cache = DiskCache(tmp_path / "cache")
    found = [starts(seed, cache) for seed in (None, 0, 1)]
    assert len(np.unique(np.concatenate(found), axis=0)) == 15
    assert found == [starts(seed, cache) for seed in (None, 0, 1)] and found[1] == starts(0, None)
    if isinstance(sampler, samplers.PointEpisodes):  # whose episodes may come with the scene
        few = NavigationPreparer(num_episodes=2)(scene).episode_set
        write_episodes({"den.glb": few}, tmp_path / "den.json.gz")
        assert starts(0, cache) == found[1] and len(starts(None, cache)) == 2


def test_near_goals_replace_the_episodes_that_come_with_a_scene(tmp_path):
    """And those of a file that is named are refused, as is a rule for the floors of a user's sampler."""
    save_glb(box_room("den"), tmp_path / "den.glb")
    far = NavigationPreparer(num_episodes=3)(box_room("den")).episode_set
    write_episodes({"den.glb": far}, tmp_path / "den.json.gz")
    keywords = {"scenes": tmp_path, "sensors": ()}
    for task in (PointNav(sampler=samplers.PointEpisodes(max_distance=1.5)), Pace(sampler=Pacing("to and fro"))):
        with closing(BatchNavEnv(1, task=task, episodes=20, **keywords)) as env:
            env.reset(seed=0)
            assert env.num_episodes == 20 and env.simulator.episode_set(0).distance.max() <= 1.5
        with (
            pytest.raises(ValueError, match="reads no file: leave the file out"),
            closing(BatchNavEnv(1, task=task, episodes=tmp_path / "den.json.gz", **keywords)) as env,
        ):
            env.reset(seed=0)
    with pytest.raises(ValueError, match=r"floors='habitat' of Episodes: Pacing\(.*leave floors out"):
        BatchNavEnv(1, task=Pace(), episodes=Episodes(floors="habitat"), **keywords)


def test_a_seed_of_episodes_is_a_whole_number_without_a_file(tmp_path):
    (tmp_path / "val.json").write_text("")
    number, file = "pass a whole number", tmp_path / "val.json"
    for wrong, remedy in (({"seed": -1}, number), ({"seed": 0.5}, number), ({"file": file, "seed": 1}, "leave it out")):
        with pytest.raises(ValueError, match=f"of Episodes: {remedy}"):
            Episodes(**wrong)


def test_progress_says_that_a_prepared_scene_is_only_looked_up(tmp_path):
    preparer = NavigationPreparer(num_episodes=5, cache=DiskCache(tmp_path))
    preparer(box_room("room"))
    assert progress._stages == ["room: sampling episodes"]
    preparer(box_room("room"))
    assert progress._stages == ["room: looking in the cache"]
    prepared = SimpleNamespace(is_prepared=lambda recipe: True)
    assert prepare_scene(prepared, SimpleNamespace(name="attic", recipe={})) == ()
    assert progress._stages == ["attic: looking in the cache"]
