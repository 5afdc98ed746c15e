"""View points of objects and episodes that lead to them, in a room whose geometry is known."""

import json
from dataclasses import replace

import numpy as np
import pytest
from furnished import CATEGORIES, CRATES, TABLE, furnished
from rooms import named

from gym_batchnav.episodes.objects import (
    ObjectInstance,
    ViewRules,
    _outline_distance,
    find_instances,
    sample_object_episodes,
)
from gym_batchnav.episodes.samplers import ObjectEpisodes, sampler_from_json, sampler_to_json
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.task.objectnav import ObjectNav


@pytest.fixture(scope="module")
def scene():
    return furnished()


@pytest.fixture(scope="module")
def mesh(scene):
    return NavMesh.build(scene.vertices, scene.triangles)


@pytest.fixture(scope="module")
def instances(scene, mesh):
    return find_instances(scene, mesh, CATEGORIES)


def gap(points, ends):
    """Return the horizontal distance of points [V, 3] to a box."""
    low, high = (np.array(end)[[0, 2]] for end in ends)
    flat = points[:, [0, 2]]
    return np.linalg.norm(np.maximum(0, np.maximum(low - flat, flat - high)), axis=1)


def test_categories_are_names_without_numbers():
    names = {"office_chair_2": "office_chair", "Chair.012": "chair", "TV_Monitor 3": "tv_monitor", "Books": "books"}
    for name, category in names.items():
        assert SceneObject.named(name).category == category


def test_view_points_are_near_and_on_the_navmesh(instances, mesh):
    assert [one.name for one in instances] == ["table", "crate_1", "crate_2"]  # in the order of the categories
    for one in instances:
        ends = {**CRATES, "table": TABLE}[one.name]
        assert mesh.is_navigable(one.points, max_y_delta=0.05).all()
        assert (gap(one.points, ends) <= 1.0 + 1e-3).all()
        assert len(one.points) == len(one.coverage) and (one.coverage >= 0.005).all()
        np.testing.assert_allclose(one.center, np.mean(ends, axis=0), atol=1e-6)


def test_every_free_place_of_the_grid_is_a_view_point(instances, mesh):
    # Nothing hides the table, so every grid point within a metre of it counts.
    table = instances[0]
    grid = np.stack(np.meshgrid(np.arange(-30, 0), np.arange(-5, 25)), axis=-1).reshape(-1, 2) * 0.15
    points = np.insert(grid, 1, 0.2, axis=1)
    points = points[(gap(points, TABLE) <= 0.99) & mesh.is_navigable(points)]
    found = {tuple(np.round(point / 0.15)) for point in table.points[:, [0, 2]]}
    missing = [point for point in points[:, [0, 2]] if tuple(np.round(point / 0.15)) not in found]
    assert len(points) > 100 and len(missing) < 0.05 * len(points)  # at the edge of the navmesh


def test_the_distance_to_a_long_wall_is_exact():
    turn = 2.0
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    corners = np.array([[-4, -0.1], [4, -0.1], [4, 0.1], [-4, 0.1], [1, 0.05]])
    points = np.random.default_rng(0).uniform(-6, 6, (2000, 2))
    expected = np.linalg.norm(np.maximum(0, np.abs(points) - [4, 0.1]), axis=1)
    np.testing.assert_allclose(_outline_distance(corners @ turned, points @ turned), expected, atol=2e-4)
    line = corners[:2] @ turned
    along = np.linalg.norm(points - np.clip(points, [-4, -0.1], [4, -0.1]), axis=1)
    np.testing.assert_allclose(_outline_distance(line, points @ turned), along, atol=2e-4)


def test_names_of_a_scene_can_be_those_of_categories(scene, mesh):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"has the categories .*'crate'.*aliases=.*: 'chair'"):
        ObjectEpisodes(("chair",)).sample(scene, mesh, 5, rng)
    sampler = ObjectEpisodes(("chair", "sofa"), True, eye_height=np.float32(0.5), aliases={"crate": "chair"})
    assert sampler_from_json(json.loads(json.dumps(sampler_to_json(sampler)))) == sampler
    episodes = sampler.sample(scene, mesh, 5, rng)
    assert episodes.categories == ("chair", "sofa") and (episodes.category == 0).all()
    assert hash(ObjectNav(("chair",), aliases={"crate": "chair"}).sampler)
    for wrong in ({"crate": "lamp"}, {"crate": ["chair"]}, {1: "chair"}, "crate"):
        with pytest.raises(ValueError, match="aliases="):
            ObjectNav(("chair",), aliases=wrong)


def test_walls_hide_objects(instances):
    behind = instances[2].points
    assert gap(np.array([[-0.5, 0, -1.7]]), CRATES["crate_2"])[0] < 1  # the other side of the wall is near enough
    assert (behind[:, 0] > 0).all()


def test_a_hidden_object_has_no_view_points():
    closed = furnished(lamp_1=((1.9, 0.2, -0.6), (2.1, 0.4, -0.4)))  # inside a crate
    mesh = NavMesh.build(closed.vertices, closed.triangles)
    assert find_instances(closed, mesh, ("lamp",)) == []
    lamps = ObjectEpisodes(("lamp",))
    with pytest.raises(ValueError, match=r"lamp has view points in this scene: none .* where agents can go.*door"):
        lamps.sample(closed, mesh, 5, np.random.default_rng(0))
    scan = replace(closed, objects=named("scan"), triangle_object=np.ones_like(closed.triangle_object))
    with pytest.raises(ValueError, match=r"has no object annotations \(it is all 'scan'\): put .*\.semantic\.glb"):
        lamps.sample(scan, mesh, 5, np.random.default_rng(0))


def test_coverage_is_the_share_of_the_picture(scene, mesh):
    # From 1.1 m in front of the crate's face, the view is filled with more of it than from a corner far away.
    points = find_instances(scene, mesh, ("crate",), ViewRules(min_coverage=0.0))[0]
    near = gap(points.points, CRATES["crate_1"]) < 0.3
    far = gap(points.points, CRATES["crate_1"]) > 0.9
    assert points.coverage[near].mean() > 1.5 * points.coverage[far].mean()
    assert find_instances(scene, mesh, ("crate",), ViewRules(min_coverage=0.99)) == []


@pytest.mark.parametrize("per_instance", [False, True])
def test_episodes_start_at_the_stated_distance(instances, mesh, per_instance):
    episodes = sample_object_episodes(mesh, instances, CATEGORIES, 40, np.random.default_rng(0), per_instance)
    assert len(episodes.first_goal) == (4 if per_instance else 3)
    names = set()
    for row in range(40):
        members = np.arange(*episodes.first_goal[episodes.goal_index[row] :][:2])
        starts = np.repeat(episodes.start[[row]], len(members), axis=0)
        lengths = mesh.geodesic_distance(starts, episodes.goals[members])
        assert episodes.distance[row] == pytest.approx(lengths.min(), abs=1e-3) and 1 <= lengths.min() <= 30
        nearest = np.flatnonzero(members == episodes.nearest_goal[row])[0]
        assert lengths[nearest] == pytest.approx(lengths.min(), abs=2e-3)
        category = CATEGORIES[episodes.category[row]]
        targets = {tuple(target) for target in episodes.targets[members]}
        assert targets <= {tuple(one.center) for one in instances if one.category == category}
        assert len(targets) == (2 if category == "crate" and not per_instance else 1)
        assert episodes.view_index[row] in members
        names.add(category)
    assert names == {"table", "crate"}  # there is no lamp


def test_oracle_view_points_of_instances_show_much(instances, mesh):
    episodes = sample_object_episodes(mesh, instances, CATEGORIES, 60, np.random.default_rng(0), per_instance=True)
    coverage = np.concatenate([one.coverage for one in instances])
    for row in range(60):
        members = slice(*episodes.first_goal[episodes.goal_index[row] :][:2])
        assert coverage[episodes.view_index[row]] >= np.median(coverage[members])


def test_objects_in_closed_rooms_without_starts_are_no_goals_and_an_error_if_they_are_alone(instances, mesh):
    everywhere = mesh.random_points(3000, np.random.default_rng(0))
    lamp = ObjectInstance(99, "lamp", "lamp", np.zeros(3, np.float32), everywhere, np.ones(3000, np.float32))
    for per_instance in (False, True):
        drawn = sample_object_episodes(mesh, [*instances, lamp], CATEGORIES, 40, np.random.default_rng(0), per_instance)
        assert set(drawn.category) == {0, 1} and len(drawn.first_goal) == (5 if per_instance else 4)
        for row in range(40):
            members = np.arange(*drawn.first_goal[drawn.goal_index[row] :][:2])
            assert drawn.nearest_goal[row] in members and len(members) < 3000
    with pytest.raises(ValueError, match="no start found"):
        sample_object_episodes(mesh, [lamp], CATEGORIES, 3, np.random.default_rng(0))
