"""Preparation of scenes for flight: what is cached, and that damaged entries are made again."""

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.episodes.samplers import sampler_from_json, sampler_to_json, with_floors
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.scene.files import SceneError
from gym_batchnav.system.code import PACKAGE, imported_by

SAMPLER = FlightEpisodes(num_goals=3)


def prepared(folder, **keywords):
    cache = None if folder is None else DiskCache(folder)
    return NavigationPreparer(sampler=SAMPLER, num_episodes=12, cache=cache, **keywords)(box_room())


def assert_same(one, other):
    for name, array in one.tables.arrays().items():
        np.testing.assert_array_equal(array, other.tables.arrays()[name])
    for name, array in one.episode_set.arrays().items():
        np.testing.assert_array_equal(array, other.episode_set.arrays()[name])


def test_starts_and_goals_are_free_and_lengths_those_of_paths():
    navigation = prepared(None)
    episodes = navigation.episode_set
    assert len(episodes) == 12 and len(episodes.goals) == 3
    assert navigation.is_navigable(episodes.start).all() and navigation.is_navigable(episodes.goals).all()
    np.testing.assert_array_equal(navigation.tables.distance(episodes.start, episodes.goal_index), episodes.distance)
    assert (episodes.distance >= 1).all()
    assert np.ptp(episodes.start[:, 1]) > 1  # at all heights
    assert navigation.nbytes > navigation.tables.nbytes > 100_000


def test_flights_can_be_short_and_straight():
    def flights(**keywords):
        sampler = FlightEpisodes(num_goals=3, **keywords)
        episodes = NavigationPreparer(sampler=sampler, num_episodes=100)(box_room()).episode_set
        straight = np.linalg.norm(episodes.goals[episodes.goal_index] - episodes.start.astype(np.float64), axis=1)
        return episodes.distance, episodes.distance / straight

    length, ratio = flights(max_distance=2.0, straight_ratio=1.0)
    assert 1 <= length.min() and 1.9 < length.max() <= 2
    assert (ratio < 1.01).mean() > 0.9  # a room without furniture
    assert (ratio < 1).mean() > 0.3  # lengths that are rounded down are kept, too
    assert flights()[0].max() > 2.5


def test_a_second_preparation_reads_the_cache(tmp_path, monkeypatch):
    first = prepared(tmp_path)
    monkeypatch.setattr(FlightEpisodes, "sample_with_air", None)  # would raise an error
    assert_same(first, prepared(tmp_path))


@pytest.mark.parametrize("name", ["episodes_start", "fields_distance"])
def test_a_damaged_entry_is_made_again(name, tmp_path, monkeypatch):
    first = prepared(tmp_path)
    load = DiskCache.load

    def damaged(self, key):
        arrays = load(self, key)
        return {**arrays, name: arrays[name] + 1} if arrays and name in arrays else arrays

    monkeypatch.setattr(DiskCache, "load", damaged)
    made = []
    sample = FlightEpisodes.sample_with_air
    monkeypatch.setattr(FlightEpisodes, "sample_with_air", lambda self, *rest: made.append(1) or sample(self, *rest))
    assert_same(first, prepared(tmp_path))
    assert made


def test_a_scene_without_room_is_refused_by_name():
    preparer = NavigationPreparer(sampler=FlightEpisodes(radius=1.4, cell=1.0), num_episodes=5)
    with pytest.raises(SceneError, match=r"cellar.*no free space above the floor .* radius 1.4 m"):
        preparer(box_room("cellar"))


def test_no_file_of_episodes_is_read(tmp_path):
    with pytest.raises(ValueError, match="leave the file out"):
        prepared(None, episode_file=tmp_path / "x.json.gz")


def test_the_sampler_survives_json():
    assert sampler_from_json(sampler_to_json(SAMPLER)) == SAMPLER
    assert with_floors(SAMPLER, "habitat").floors == "habitat"
    wrong_fields = ({"radius": 0}, {"cell": 0.2}, {"num_goals": 0}, {"floors": "none"}, {"max_distance": 0.9})
    for wrong in (*wrong_fields, {"straight_ratio": 0.9}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            FlightEpisodes(**wrong)


def test_the_key_depends_on_the_code_of_paths_and_collisions():
    files = {path.name for path in imported_by([PACKAGE / "flight/episodes.py"], True, ("library/",))}
    assert {"paths.py", "space.py", "sweep.py", "triangles.py", "air.py"} <= files
