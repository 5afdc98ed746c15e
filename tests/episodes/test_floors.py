"""Sampled episodes begin and end on floors, not on roofs, tops of walls or wardrobes."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from rooms import box, scene_of

from gym_batchnav import BatchNavEnv, PointNav
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.episodes.floors import cut_off_islands, floor_islands, island_kinds
from gym_batchnav.episodes.samplers import ObjectEpisodes, PointEpisodes, TourEpisodes, with_floors
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.categories import SceneObject

HOUSE = scene_of("house", box((-0.5, -0.3, -0.5), (8.5, 3.0, 8.5)), box((0, 0, 0), (8, 2.6, 8), inward=True))
"""A closed room whose flat roof is larger than its floor."""

WITHOUT_ROOF = scene_of(
    "without a roof",
    box((0, -0.1, 0), (8, 0, 8)),
    box((-0.9, 0, -0.9), (8.9, 2.6, 0)),  # a wall on which an agent can stand
    box((1, 0, 5), (5, 2.0, 6.2)),  # a wardrobe
)

STOREYS = scene_of(
    "two storeys",
    box((0, 0, 0), (8, 2.6, 8), inward=True),
    box((0, 3, 0), (8, 5.6, 8), inward=True),
    box((4.8, 3, 0), (5.0, 5.6, 8)),  # closes a room off
)


def sampled_heights(scene, floors, sampler):
    navmesh = NavMesh.build(scene.vertices, scene.triangles)
    episodes = with_floors(sampler, floors).sample(scene, navmesh, 100, np.random.default_rng(0))
    return np.unique(np.concatenate([episodes.start[:, 1], episodes.goals[:, 1]]).round())


@pytest.mark.parametrize("sampler", [PointEpisodes(), TourEpisodes(2)])
def test_a_roof_is_no_floor_even_if_it_is_larger(sampler):
    np.testing.assert_array_equal(sampled_heights(HOUSE, "main", sampler), [0])
    np.testing.assert_array_equal(sampled_heights(HOUSE, "habitat", sampler), [0, 3])


def test_tops_of_walls_and_wardrobes_are_no_floors():
    navmesh = NavMesh.build(WITHOUT_ROOF.vertices, WITHOUT_ROOF.triangles)
    points = navmesh.random_points(500, np.random.default_rng(0), floor_islands(WITHOUT_ROOF, navmesh, "habitat"))
    assert set(np.round(points[:, 1])) == {0, 2, 3}
    points = navmesh.random_points(500, np.random.default_rng(0), floor_islands(WITHOUT_ROOF, navmesh))
    assert set(np.round(points[:, 1])) == {0}


def test_each_storey_has_its_largest_island():
    """Two storeys without stairs, under ceilings, are both floors; a closed room of the upper one is not."""
    navmesh = NavMesh.build(STOREYS.vertices, STOREYS.triangles)
    chosen = floor_islands(STOREYS, navmesh)
    heights = [float(navmesh.vertices[navmesh.polygons[island.polygons[0]][0], 1]) for island in navmesh.islands]
    areas = [island.area for island in navmesh.islands]
    assert sorted(np.round(heights)) == [0, 3, 3]
    assert floor_islands(STOREYS, navmesh, "habitat").all()
    small = int(np.argmin(areas))
    np.testing.assert_array_equal(chosen, np.arange(3) != small)
    np.testing.assert_array_equal(cut_off_islands(STOREYS, navmesh), np.arange(3) == small)


@pytest.mark.parametrize(
    ("scene", "kinds"),
    [
        (HOUSE, ["floor", "roof"]),
        (WITHOUT_ROOF, ["above the floor", "above the floor", "cut off", "floor"]),  # cut off inside the wardrobe
        (STOREYS, ["cut off", "floor", "floor"]),
        (scene_of("small", box((0, 0, 0), (1.6, 2, 1.6), inward=True)), ["too small"]),
    ],
)
def test_islands_have_kinds(scene, kinds):
    assert sorted(island_kinds(scene, NavMesh.build(scene.vertices, scene.triangles))) == kinds


@pytest.mark.parametrize("scene", [HOUSE, WITHOUT_ROOF])
def test_roofs_and_tops_of_walls_are_no_parts_of_a_storey_that_are_cut_off(scene):
    assert not cut_off_islands(scene, NavMesh.build(scene.vertices, scene.triangles)).any()


def test_objects_on_a_roof_are_no_goals_of_main_floors():
    parts = [box((-0.5, -0.3, -0.5), (8.5, 3.0, 8.5)), box((0, 0, 0), (8, 2.6, 8), inward=True)]
    crates = [box((2, 0, 2), (3, 0.7, 3)), box((5, 3, 5), (6, 3.7, 6))]
    names = ("house", "room", "crate_1", "crate_2")
    objects = tuple(SceneObject.named(name) for name in names)
    scene = replace(scene_of("crates", *parts, *crates), objects=objects)
    sampler = ObjectEpisodes(categories=("crate",), per_instance=True)
    np.testing.assert_array_equal(sampled_heights(scene, "main", sampler), [0])
    np.testing.assert_array_equal(sampled_heights(scene, "habitat", sampler), [0, 3])


def test_the_rule_is_a_keyword_and_has_its_own_entry_in_the_cache(tmp_path):
    keywords = {"sensors": (), "scenes": Scenes(cache_dir=tmp_path)}
    for floors, highest in (("main", 0), ("habitat", 3)) * 2:
        episodes = Episodes(count=100, floors=floors)
        with closing(BatchNavEnv(4, library=SceneLibrary.from_scenes([HOUSE]), episodes=episodes, **keywords)) as env:
            env.reset(seed=0)
            assert round(float(env.simulator.episode_set(0).start[:, 1].max())) == highest
    with pytest.raises(ValueError, match=r"floors='roof'"):
        PointEpisodes(floors="roof")


def test_the_rule_of_a_tasks_sampler_holds_unless_the_keyword_is_given():
    class Anywhere(PointNav):
        sampler = PointEpisodes(floors="habitat")

    keywords = {"sensors": (), "task": Anywhere()}
    for given, rule, wanted in ((None, "habitat", 3), ("main", "main", 0)):
        episodes = Episodes(count=100, floors=given)
        with closing(BatchNavEnv(4, library=SceneLibrary.from_scenes([HOUSE]), episodes=episodes, **keywords)) as env:
            env.reset(seed=0)
            assert round(float(env.simulator.episode_set(0).start[:, 1].max())) == wanted
            assert env.protocol_card().settings["episodes"]["floors"] == rule


def test_points_can_be_drawn_on_a_mask_of_islands():
    navmesh = NavMesh.build(STOREYS.vertices, STOREYS.triangles)
    rng = np.random.default_rng(0)
    mask = np.array([True, False, True])
    _, polygons = navmesh.random_points_and_polygons(200, rng, mask)
    assert set(navmesh.polygon_island[polygons]) == {0, 2}
    with pytest.raises(ValueError, match="mask of 3 bools"):
        navmesh.random_points(5, rng, np.array([True]))
    with pytest.raises(ValueError, match="names no island: pass 0 to 2, or a mask with a True"):
        navmesh.random_points(5, rng, np.zeros(3, bool))
