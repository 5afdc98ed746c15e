"""Entries of the cache that do not validate are made again and never an error."""

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.library.cache import DiskCache
from gym_batchnav.preparation.navigation import NavigationPreparer


def damage(name: str, array: np.ndarray) -> np.ndarray:
    """An array of the same name that no kernel and no task may use."""
    if array.dtype.kind == "f":
        return np.full_like(array, np.nan)
    return array[:0] if array.ndim else array


@pytest.mark.parametrize("kind", ["navmesh-", "geodesics-", "episodes-"])
def test_an_entry_that_does_not_validate_is_made_again(tmp_path, monkeypatch, kind):
    preparer, scene = NavigationPreparer(num_episodes=5, cache=DiskCache(tmp_path)), box_room("room")
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
