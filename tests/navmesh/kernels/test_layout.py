"""The rows that kernels read: arrays that do not fit are refused."""

import numpy as np
import pytest
from floors import floor_plan

from gym_batchnav.navmesh.kernels import layout
from gym_batchnav.navmesh.kernels.tables import NavigationTables


@pytest.fixture(scope="module")
def tables() -> NavigationTables:
    return floor_plan(["00000", "0.0.0", "00000"], ["....3"]).tables(np.array([[0.5, 0, 0.5], [4.5, 0, 2.5]]))


def changed(tables: NavigationTables, part: str, name: str, value: np.ndarray) -> NavigationTables:
    parts = {each: getattr(tables, each) for each in ("ground", "corners", "cells", "goals", "drops")}
    parts[part] = parts[part]._replace(**{name: value})
    return NavigationTables(**parts)


@pytest.mark.parametrize("part", ["ground", "corners", "cells", "goals", "drops"])
def test_arrays_of_another_type_shape_or_range_are_refused(tables: NavigationTables, part: str) -> None:
    arrays = getattr(tables, part)
    for name, declared in layout.declarations(type(arrays)).items():
        array = getattr(arrays, name)
        other = np.float32 if array.dtype != np.float32 else np.float64
        with pytest.raises(ValueError, match=name):
            changed(tables, part, name, array.astype(other))
        with pytest.raises(ValueError, match=name):
            changed(tables, part, name, array[..., None])
        if array.ndim > 1 and array.shape[0] > 1 and array.shape[1] > 1:
            with pytest.raises(ValueError, match=name):
                changed(tables, part, name, np.asfortranarray(array))
        for column in range(len(declared.index)):
            for wrong in (np.iinfo(np.int32).max, np.iinfo(np.int32).min):
                bad = array.copy()
                bad.reshape(-1, len(declared.index))[0, column] = wrong
                with pytest.raises(ValueError, match=name):
                    changed(tables, part, name, bad)
        if declared.starts:
            with pytest.raises(ValueError, match=name):
                changed(tables, part, name, array + np.int32(1))


def test_geodesic_arrays_of_a_cache_are_checked_before_they_are_used() -> None:
    mesh = floor_plan(["00.00", "00000", "00.00"])
    kept = mesh.geodesic_arrays()
    start = np.array([[0.5, 0, 0.5]])
    goal = np.array([[4.5, 0, 0.5]])
    for name, array in kept.items():
        fresh = floor_plan(["00.00", "00000", "00.00"])
        for bad in (array.astype(np.complex64), array.tolist()):
            with pytest.raises(ValueError, match=name):
                fresh.use_geodesic_arrays({**kept, name: bad})
        if name != "grid":  # whose size nothing depends on
            with pytest.raises(ValueError, match=r"give a C-contiguous|must rise|indices must"):
                fresh.use_geodesic_arrays({**kept, name: array[:-1]})
        assert fresh.geodesic_distance(start, goal) == mesh.geodesic_distance(start, goal)
    with pytest.raises(ValueError, match="give a C-contiguous"):
        floor_plan(["0000"]).use_geodesic_arrays(kept)


def test_a_room_without_corners_lists_none() -> None:
    """An index of 0 is out of range where there is nothing to point to."""
    room = floor_plan(["0"]).tables(np.zeros((0, 3)))
    pieces = room.cells.pieces.copy()
    pieces[1:, 1] = 1  # the first piece lists one corner
    cells = room.cells._replace(pieces=pieces, listed=np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="listed: indices must lie in"):
        NavigationTables(room.ground, room.corners, cells, room.goals, room.drops)
