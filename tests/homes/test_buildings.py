"""Offices, shops and halls: one island, real sizes, determinism, doors; homes are as they were."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from rooms import facts

from gym_batchnav.homes import generate_scene, semantic_class
from gym_batchnav.homes.buildings.generate import generate_building
from gym_batchnav.homes.buildings.plan import LIMITS, divide_building
from gym_batchnav.homes.cells import shared_line
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene

BUILDINGS = ("office", "shop", "hall")
CASES = [("office", 4), ("shop", 6), ("hall", 1)]  # the shop has a yard, the hall a platform
MORE = [pytest.param(kind, seed, marks=pytest.mark.long) for kind in BUILDINGS for seed in range(7, 25)]


@cache
def building(kind: str, seed: int) -> tuple[Scene, NavMesh]:
    scene = generate_scene(seed, kind=kind, triangles=20_000)
    return scene, NavMesh.build(scene.vertices, scene.triangles)


@pytest.mark.parametrize(("kind", "seed"), CASES + MORE)
def test_all_rooms_belong_to_one_main_island(kind, seed):
    scene, mesh = building(kind, seed)
    areas = [island.area for island in mesh.islands]
    main = int(np.argmax(areas))
    assert areas[main] > 0.8 * sum(areas)
    assert max(areas[:main] + areas[main + 1 :], default=0.0) < 6.0  # tops of furniture
    points = mesh.random_points(5000, np.random.default_rng(0), island=main)
    for room in facts(scene, "rooms"):
        x0, z0, x1, z1 = room["bounds"]
        inside = (points[:, 0] > x0) & (points[:, 0] < x1) & (points[:, 2] > z0) & (points[:, 2] < z1)
        assert inside.any(), room["name"]


@pytest.mark.parametrize(("kind", "seed"), CASES + MORE)
def test_buildings_have_real_sizes_and_moderate_triangles(kind, seed):
    scene, _ = building(kind, seed)
    assert len(scene.triangles) < 60_000
    assert np.ptp(scene.bounds, axis=0)[[0, 2]].max() < 61.0
    low, high = LIMITS[kind]
    indoors = [room for room in facts(scene, "rooms") if room["type"] != "yard"]
    area = sum((x1 - x0) * (z1 - z0) for x0, z0, x1, z1 in (room["bounds"] for room in indoors))
    assert 0.8 * low < area < high
    assert all(min(x1 - x0, z1 - z0) > 1.4 for x0, z0, x1, z1 in (room["bounds"] for room in facts(scene, "rooms")))
    assert {semantic_class(one.name) for one in scene.objects} == {one.category for one in scene.objects}


@pytest.mark.parametrize("kind", BUILDINGS)
def test_cells_cover_the_building_without_overlap_and_links_have_room_for_a_door(kind):
    for seed in range(20):
        division = divide_building(np.random.default_rng(seed), kind, float(np.mean(LIMITS[kind])))
        areas = [(x1 - x0) * (z1 - z0) for x0, z0, x1, z1 in division.cells]
        assert sum(areas) == pytest.approx(division.extent[0] * division.extent[1])
        assert min(areas) > 3
        joined = np.eye(len(areas), dtype=bool)
        for i, j in division.links:
            _, _, low, high = shared_line(division.cells[i], division.cells[j])
            assert high - low >= 1.5
            joined[i, j] = joined[j, i] = True
        for _ in areas:
            joined = joined @ joined
        assert joined.all()


def test_a_yard_has_no_ceiling_and_a_low_wall():
    scene, _ = building("shop", 6)
    yard = facts(scene, "rooms")[-1]
    assert yard["type"] == "yard"
    x0, z0, x1, z1 = yard["bounds"]
    assert not any("ceiling_yard" in one.name for one in scene.objects)
    corners = scene.vertices[scene.triangles]
    middle = corners.mean(axis=1)
    inside = ((middle[:, [0, 2]] > [x0 + 0.5, z0 + 0.5]) & (middle[:, [0, 2]] < [x1 - 0.5, z1 - 0.5])).all(axis=1)
    assert inside.any() and corners[inside][:, :, 1].max() < 2.0


def test_platforms_are_walked_up():
    scene, mesh = building("hall", 1)
    assert any(one.category == "platform" for one in scene.objects)
    main = int(np.argmax([island.area for island in mesh.islands]))
    assert mesh.random_points(3000, np.random.default_rng(0), island=main)[:, 1].max() > 0.25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "castle"}, "kind='castle': choose one of home, office"),
        ({"kind": "office", "storeys": 2}, "only homes"),
        ({"kind": "shop", "area": 30}, "80 to 900"),
        ({"damage": 2}, "damage=2: pass a number from 0 to 1"),
        ({"random_materials": 2}, "random_materials=2: pass a number from 0 to 1"),
        ({"kind": "hall", "triangles": 3}, "triangles=3"),
        ({"kind": "mixed", "seed": 1.5}, "seed=1.5: pass a whole number"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        generate_scene(**{"seed": 0, **options})


def test_a_building_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="kind='home': choose one of 'office', 'shop', 'hall'"):
        generate_building(0, "home")
