"""Datasets in the layouts that people have, the whole way: listed, prepared, sampled, walked through."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from habitat_datasets import (
    SHELL,
    lying,
    scan_of,
    write_hm3d_dataset,
    write_hssd_dataset,
    write_mp3d_dataset,
    write_replica_cad_dataset,
)
from scans import write_mp3d

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.episodes.habitat_objects import write_object_episodes
from gym_batchnav.episodes.objects import find_instances, sample_object_episodes
from gym_batchnav.geometry import Camera
from gym_batchnav.homes import generate_apartment
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.habitat.dataset import list_scenes
from gym_batchnav.scene.save import save_glb
from gym_batchnav.task.objectnav import ObjectNav

pytest.importorskip("scipy")
CATEGORIES = ("chair", "bed", "toilet", "sofa", "table")
WRITERS = {
    "hm3d": write_hm3d_dataset,
    "mp3d": write_mp3d_dataset,
    "hssd": write_hssd_dataset,
    "replica_cad": write_replica_cad_dataset,
}
STEPS = 300


@pytest.fixture(scope="module")
def homes():
    """Two furnished homes."""
    return [generate_apartment(seed, area=25, triangles=5_000, name=f"home{seed}") for seed in (4, 5)]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def walk(env, steps=STEPS):
    """Follow the shortest paths for some steps and return the successes of all episodes that end."""
    env.reset(seed=0)
    ends = []
    for _ in range(steps):
        _, _, _, _, info = env.step(env.shortest_path_actions())
        if "success" in info:
            ends += info["success"][info["_success"]].tolist()
    return ends


@pytest.mark.parametrize(
    "layout", [name if name == "hm3d" else pytest.param(name, marks=pytest.mark.slow) for name in WRITERS]
)
def test_a_dataset_goes_the_whole_way(tmp_path, cache_dir, homes, layout):
    dataset = WRITERS[layout](tmp_path / layout, homes)
    assert len(list_scenes(dataset)) == 2
    sources = scene_sources(str(dataset), DiskCache(cache_dir))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*articulated objects: URDF is not read")
        warnings.filterwarnings("ignore", message=".*the translation and rotation of its stage")
        scenes = [source.load() for source in sources]
    for home, scene in zip(homes, scenes, strict=True):
        assert_same_objects(home, scene)
    keywords = {"scenes": str(dataset), "task": ObjectNav(CATEGORIES), "sensors": (), "episodes": 40}
    with closing(BatchNavEnv(4, **keywords)) as env:
        ends = walk(env)
    assert len(ends) > 20 and np.mean(ends) == 1.0


def write_gibson(folder, homes):
    """Write ``gibson/NAME.glb``, whose z is up, with navmesh and an annotated mesh whose y is up."""
    place = folder / "gibson"
    place.mkdir(parents=True)
    for home in homes:
        save_glb(scan_of(lying(home)), place / f"{home.name}.glb")
        NavMesh.build(home.vertices, home.triangles).save(place / f"{home.name}.navmesh")
        write_mp3d(home, place, home.name)


@pytest.mark.parametrize(
    ("write", "files"),
    [
        (write_hm3d_dataset, "val/*/*.basis.glb"),
        (write_mp3d_dataset, "mp3d/*/*.glb"),
        (write_gibson, "gibson/*.glb"),
    ],
)
def test_files_of_scans_stand_upright_without_a_configuration(tmp_path, cache_dir, homes, write, files):
    write(tmp_path, homes[:1])
    for config in tmp_path.rglob("*.scene_dataset_config.json"):
        config.unlink()
    (source,) = scene_sources(str(tmp_path / files), DiskCache(cache_dir))
    scene = source.load()
    assert scene.metadata["up"] == "z"
    assert_same_objects(homes[0], scene)


def assert_same_objects(home, scene):
    """The scene shows the home's objects where they are, whatever carries them."""
    mine = Counter(one.category for one in home.objects if one.category not in SHELL)
    assert Counter(one.category for one in scene.objects if one.category not in SHELL) == mine
    boxes = home.object_boxes
    found = scene.object_boxes
    for number, one in enumerate(home.objects):
        alike = [row for row, other in enumerate(scene.objects) if other.category == one.category]
        if one.category not in ("picture", "window", "wall"):  # which lie in the plane of others
            assert np.abs(found[alike] - boxes[number]).max(axis=(1, 2)).min() < 0.02, f"{one.name} is elsewhere"


def test_episodes_of_a_file_are_found_by_scene_id(tmp_path, cache_dir, homes):
    dataset = write_hm3d_dataset(tmp_path / "hm3d", homes[:1])
    (home,) = homes[:1]
    navmesh = NavMesh.load(tmp_path / "hm3d/val/00800-home4/home4.basis.navmesh")
    instances = find_instances(home, navmesh, CATEGORIES)
    episodes = sample_object_episodes(navmesh, instances, CATEGORIES, 30, np.random.default_rng(0))
    write_object_episodes({"hm3d/val/00800-home4/home4.basis.glb": (episodes, instances)}, tmp_path / "val.json.gz")
    keywords = {"scenes": str(dataset), "task": ObjectNav(CATEGORIES), "episodes": tmp_path / "val.json.gz"}
    keywords |= {"sensors": ("semantic",), "semantic_ids": {"chair": 1, "bed": 2}, "camera": Camera(16, 16)}
    with closing(BatchNavEnv(4, renderer="embree", **keywords)) as env:
        starts = env.simulator.episode_set(0).start
        np.testing.assert_allclose(starts, episodes.start, atol=1e-4)
        ends = walk(env, 200)
        seen = env.reset(seed=1)[0]["semantic"]
    assert len(ends) > 4 and np.mean(ends) == 1.0 and set(np.unique(seen)) <= {0, 1, 2}


def test_an_object_that_is_not_collidable_is_no_obstacle(tmp_path, cache_dir, homes):
    dataset = write_replica_cad_dataset(tmp_path / "cad", homes[:1])
    areas = []
    for collidable in (True, False):
        for path in (tmp_path / "cad/configs/objects").glob("*.object_config.json"):
            text = path.read_text().replace("}", f', "is_collidable": {str(collidable).lower()}}}', 1)
            path.write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (scene,) = (source.load() for source in scene_sources(str(dataset), DiskCache(cache_dir)))
        assert all(one.solid is collidable for one in scene.objects if one.category not in SHELL)
        areas.append(NavMesh.build(scene.vertices, scene.solid_triangles).navigable_area)
    assert areas[1] > areas[0] + 2.0
