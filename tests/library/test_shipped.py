"""The tables that are shipped with the apartments."""

import lzma
import shutil

import numpy as np
import pytest

from gym_batchnav.library import shipped
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import assets_dir, scene_sources, shipped_scenes
from gym_batchnav.navmesh.mesh import NavMesh


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the smallest shipped apartment, as if it were shipped from there."""
    for file in assets_dir().glob("apartment_4.*"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(shipped, "assets_dir", lambda: tmp_path)
    return tmp_path


def loaded(path):
    (source,) = scene_sources(str(path))
    scene = source.load()
    return scene, NavMesh(scene.navmesh.data)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=name, marks=() if name == "apartment_4" else pytest.mark.slow)
        for name, path in shipped_scenes().items()
    ],
)
def test_shipped_tables_are_those_that_preparation_computes(path):
    """If they are not, run ``python -m gym_batchnav.library.shipped``."""
    scene, navmesh = loaded(path.stem)
    found = shipped.shipped_tables(scene, navmesh)
    assert found is not None
    episodes = NavigationPreparer().episodes(scene, navmesh)
    tables = navmesh.tables(episodes.goals, navmesh.drops(scene.vertices, scene.triangles))
    for part in ("corners", "cells", "goals", "drops"):
        for name, expected in getattr(tables, part)._asdict().items():
            np.testing.assert_allclose(getattr(getattr(found, part), name), expected, rtol=1e-6, err_msg=name)
    for name, expected in episodes.arrays().items():
        np.testing.assert_allclose(getattr(found.episodes, name), expected, rtol=1e-6, err_msg=name)
    assert found.episodes.ids == episodes.ids
    np.testing.assert_array_equal(found.start_polygon, navmesh.snap_with_polygon(episodes.start)[1])


def test_other_episodes_another_navmesh_and_damage_make_them_unused(folder):
    scene, navmesh = loaded(folder / "apartment_4.glb")
    assert shipped.shipped_tables(scene, navmesh) is not None
    assert shipped.shipped_tables(scene, NavMesh.load(assets_dir() / "apartment_6.navmesh")) is None
    file = folder / "apartment_4.tables"
    content = bytearray(lzma.decompress(file.read_bytes()))
    content[-1] ^= 1
    file.write_bytes(lzma.compress(content))
    assert shipped.shipped_tables(scene, navmesh) is None
    shutil.copy(assets_dir() / file.name, file)
    shutil.copy(assets_dir() / "apartment_6.json.gz", folder / "apartment_4.json.gz")
    assert shipped.shipped_tables(scene, navmesh) is None


def test_a_shipped_scene_is_prepared_by_no_kernel(monkeypatch):
    for name in ("make_goals", "make_corners", "make_cells", "make_drops", "snap_points"):
        monkeypatch.delattr(f"gym_batchnav.navmesh.mesh.{name}")
    (source,) = scene_sources("apartment_4")
    navigation = NavigationPreparer()(source.load())
    assert len(navigation.episode_set) == 100 and np.isfinite(navigation.episode_set.distance).all()
