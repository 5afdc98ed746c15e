"""Entries of the cache that do not validate are made again and never an error."""

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.homes import generate_apartment
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.preparation import navigation
from gym_batchnav.preparation.navigation import NavigationPreparer


def damage(name: str, array: np.ndarray) -> np.ndarray:
    """An array of the same name that no kernel and no task may use."""
    if array.dtype.kind == "f":
        return np.full_like(array, np.nan)
    return array[:0] if array.ndim else array


@pytest.mark.parametrize("kind", ["navmesh-", "geodesics-", "episodes-"])
def test_an_entry_that_does_not_validate_is_made_again(tmp_path, monkeypatch, kind):
    preparer = NavigationPreparer(num_episodes=5, cache=DiskCache(tmp_path))
    scene = box_room("room")
    first = preparer(scene)
    load = DiskCache.load

    def damaged(self, key):
        arrays = load(self, key)
        if arrays is None or not key.startswith(kind):
            return arrays
        return {name: damage(name, array) for name, array in arrays.items()}

    monkeypatch.setattr(DiskCache, "load", damaged)
    again = preparer(scene)
    np.testing.assert_array_equal(again.episode_set.start, first.episode_set.start)
    assert again.navmesh.num_polygons == first.navmesh.num_polygons


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
        ("navmesh-", (put(10**6), "neighbours")),
        ("navmesh-", (put(10**6), "detail_triangles")),
        ("navmesh-", (put(-1), "polygons")),
        ("navmesh-", (lambda array: array.astype(np.int64), "polygons")),
        ("geodesics-", (lambda array: array.astype(np.bool_), "grid")),
        ("geodesics-", (lambda array: array.reshape(-1), "between")),
        ("geodesics-", (put(0.0, 2), "frame")),
        ("geodesics-", (put(np.nan, -1), "between")),
        ("geodesics-", (put(-1.0, -1), "between")),
        ("geodesics-", (put(np.inf, -1), "point")),
        ("episodes-", (put(np.nan, 2), "goal")),
        ("episodes-", (put(1e11, 1), "goal")),
        ("episodes-", (put(3.0, 1), "start")),
        ("episodes-", (put(0.01), "distance")),
        ("episodes-", (lambda array: array[:3], "start", "heading", "goal", "distance")),
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
    preparer = NavigationPreparer(num_episodes=300, cache=DiskCache(tmp_path))
    scene = generate_apartment(5, triangles=6000)
    first = preparer(scene)

    def never(*arguments):
        raise AssertionError("drawn again")

    monkeypatch.setattr(navigation, "sample_episodes", never)
    np.testing.assert_array_equal(preparer(scene).episode_set.goal, first.episode_set.goal)
