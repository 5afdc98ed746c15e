"""Homes of all sizes: areas, stairs, closed doors, free floor, classes, daylight, the same bytes anywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rooms import facts, names_of
from scipy.ndimage import distance_transform_edt

from gym_batchnav.geometry import convex_hull
from gym_batchnav.homes import SEMANTIC_CLASSES, generate_apartment, semantic_class
from gym_batchnav.homes.daylight import Daylight, clip
from gym_batchnav.homes.plan import Plan, make_plan
from gym_batchnav.homes.stairs import Stairs
from gym_batchnav.library.packing import pack_scene
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene

RADIUS = 0.1  # metres, of the default agent
CELL = 0.02  # metres, of the grid on which free floor is counted


@cache
def home(seed: int, area: float, storeys: int = 1, closed_doors: int = 0) -> Scene:
    return generate_apartment(seed, area=area, storeys=storeys, closed_doors=closed_doors, triangles=6_000)


@cache
def navmesh_of(scene: Scene) -> NavMesh:
    return NavMesh.build(scene.vertices, scene.triangles)


def digest(scene: Scene) -> str:
    """Return a digest of all bytes of a scene."""
    return hashlib.sha256(b"".join(array.tobytes() for array in pack_scene(scene).values())).hexdigest()


def free_cells(storey: dict, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells [Z, X] of a storey at least ``radius`` away from all that is not free floor, and the lowest corner."""
    areas = np.array(storey["areas"])
    low = areas[:, :2].min(axis=0) - 0.3
    count = np.ceil((areas[:, 2:].max(axis=0) + 0.3 - low) / CELL).astype(int)
    x, z = np.meshgrid(*(low[k] + CELL * (np.arange(count[k]) + 0.5) for k in (0, 1)))
    free = np.zeros(x.shape, bool)
    for x0, z0, x1, z1 in areas:
        free |= (x > x0 - 1e-6) & (x < x1 + 1e-6) & (z > z0 - 1e-6) & (z < z1 + 1e-6)
    for outline in storey["obstacles"]:
        inside = np.ones(x.shape, bool)
        for (ax, az), (bx, bz) in zip(outline, outline[1:] + outline[:1], strict=True):
            inside &= (bx - ax) * (z - az) - (bz - az) * (x - ax) >= 0
        free &= ~inside
    return distance_transform_edt(free) > round(radius / CELL), low


def floor_area(navmesh: NavMesh, floor: float, bounds: list[float] | None = None) -> float:
    """Area of the polygons that lie on a floor, inside ``bounds`` if given."""
    total = 0.0
    for polygon, area in zip(navmesh.polygons, navmesh.polygon_area_xz, strict=True):
        middle = navmesh.vertices[polygon[polygon >= 0]].mean(axis=0)
        inside = bounds is None or (bounds[0] < middle[0] < bounds[2] and bounds[1] < middle[2] < bounds[3])
        if inside and abs(middle[1] - floor) < 0.3:
            total += float(area)
    return total


@pytest.mark.parametrize("seed", [pytest.param(k, marks=pytest.mark.long if k else pytest.mark.slow) for k in range(4)])
def test_plans_have_the_area_asked_for(seed: int) -> None:
    sizes = [(25, 1), (33, 1), (45, 1), (55, 1), (70, 1), (95, 1), (140, 1), (400, 1), (120, 2), (400, 2)]
    for area, storeys in sizes:
        plan = make_plan(np.random.default_rng([seed, round(area)]), area, storeys)
        assert sum(room.area for room in plan.rooms) == pytest.approx(area, rel=0.02)
        assert plan.storeys == storeys == 1 + max(room.storey for room in plan.rooms)
        kinds = Counter(room.kind for room in plan.rooms)
        assert kinds["living"] and kinds["bath"]
        assert kinds["stairs"] == storeys - 1
        assert bool(kinds["bedroom"]) == (area > 40) and bool(kinds["kitchen"]) == (area > 50)
        assert all(min(room.size) > 1.2 for room in plan.rooms)
        assert_connected(plan)
        assert_apart(plan)


def assert_connected(plan: Plan) -> None:
    """Every room is joined to the first one by doors, open or closed."""
    reached = {0}
    for _ in plan.rooms:
        for door in plan.doors:
            if reached & set(door.rooms):
                reached |= {room for room in door.rooms if room >= 0}
    assert reached == set(range(len(plan.rooms)))


def assert_apart(plan: Plan) -> None:
    """Rooms of one storey are a wall apart; the stairwell takes its place on both."""
    for i, a in enumerate(plan.rooms):
        for b in plan.rooms[:i]:
            if a.storey == b.storey or "stairs" in (a.kind, b.kind):
                gap = np.maximum(np.array(a.bounds[:2]) - b.bounds[2:], np.array(b.bounds[:2]) - a.bounds[2:])
                assert gap.max() > 0.11


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_stairs_join_both_storeys_in_one_island(seed: int) -> None:
    scene = home(seed, 140.0, 2)
    navmesh = navmesh_of(scene)
    top = facts(scene, "free_space")[1]["floor"]
    island = max(range(len(navmesh.islands)), key=lambda k: navmesh.islands[k].area)
    for storey in (0, 1):
        for room in facts(scene, "rooms"):
            if room["storey"] != storey or room["type"] == "stairs":
                continue
            x0, z0, x1, z1 = room["bounds"]
            on_floor = navmesh.random_points(4_000, np.random.default_rng(seed), island)
            inside = (on_floor[:, 0] > x0) & (on_floor[:, 0] < x1) & (on_floor[:, 2] > z0) & (on_floor[:, 2] < z1)
            assert (inside & (np.abs(on_floor[:, 1] - storey * top) < 0.3)).any(), f"no way to the {room['name']}"


def test_way_over_the_stairs_is_as_long_as_they_are() -> None:
    scene = home(0, 140.0, 2)
    navmesh = navmesh_of(scene)
    entry = next(door for door in facts(scene, "doors") if door["width"] > 1.5 and door["storey"] == 1)
    bounds = next(room["bounds"] for room in facts(scene, "rooms") if room["type"] == "stairs")
    rise = facts(scene, "free_space")[1]["floor"]
    across = 0 if entry["axis"] == "x" else 1
    size = (bounds[2] - bounds[0], bounds[3] - bounds[1])
    stairs = Stairs(size[1 - across], size[across], rise)
    low = np.array([*entry["center"]])
    inward = np.sign((np.array(bounds[:2]) + bounds[2:])[across] / 2 - low[across])
    landing = low.copy()
    landing[across] += inward * 0.6
    start = np.array([landing[0], 0.0, landing[1]])
    goal = np.array([landing[0], rise, landing[1]])
    found = float(navmesh.geodesic_distance(start[None], goal[None])[0])
    # From the middle of the landing along the inner side of both flights, around the end of the wall between.
    aside = 0.06 + RADIUS
    flat = np.hypot(stairs.landing - 0.6 + 0.06, aside)
    climb = np.hypot(stairs.run, rise / 2)
    expected = 2 * (flat + climb) + 2 * aside
    assert found == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_closed_doors_make_islands(seed: int) -> None:
    scene = home(seed, 70.0, closed_doors=2)
    navmesh = navmesh_of(scene)
    opened = home(seed, 70.0)
    rooms = facts(scene, "rooms")
    assert facts(opened, "rooms") == rooms, "doors open and closed are of the same home"
    assert sum(name.startswith("closed_door") for name in names_of(scene)) == 2
    assert not any(name.startswith("closed_door") for name in names_of(opened))
    assert len(facts(scene, "free_space")[0]["areas"]) == len(facts(opened, "free_space")[0]["areas"]) - 2
    shut = [door for door in facts(scene, "doors") if door["closed"] and len(door["rooms"]) == 2]
    assert len(shut) == 2
    rng = np.random.default_rng(0)
    largest = max(range(len(navmesh.islands)), key=lambda k: navmesh.islands[k].area)
    away = navmesh.random_points(1, rng, largest)
    truth = free_cells(facts(scene, "free_space")[0], RADIUS)
    points = np.concatenate([navmesh.random_points(100, rng, k) for k in range(len(navmesh.islands))])
    for door in shut:
        bounds = rooms[door["rooms"][1]]["bounds"]
        x0, z0, x1, z1 = ((np.array(bounds) - np.tile(truth[1], 2)) / CELL).astype(int)
        area = truth[0][z0:z1, x0:x1].sum() * CELL**2
        assert floor_area(navmesh, 0.0, bounds) == pytest.approx(area, rel=0.15)
        low = np.array(bounds[:2])
        high = np.array(bounds[2:])
        inside = ((points[:, [0, 2]] > low) & (points[:, [0, 2]] < high)).all(axis=1) & (points[:, 1] < 0.3)
        assert inside.any()
        within = points[inside].astype(np.float64)
        assert np.isinf(navmesh.geodesic_distance(np.repeat(away, len(within), axis=0), within)).all()


def test_small_bathrooms_have_a_toilet() -> None:
    scene = generate_apartment(37, area=25, triangles=5_000)
    assert "toilet_1" in names_of(scene), "it is hard to place in this one"
    assert_holds_together(scene)


SIZES = ((None, None), (None, None), (25, 1), (60, 1), (120, None), (250, None), (400, None), (180, None))
DOORWAY = 0.6  # metres on either side of a door that furniture leaves clear


@pytest.mark.parametrize("seed", [pytest.param(k, marks=pytest.mark.long if k else ()) for k in range(100)])
def test_homes_of_all_sizes_hold_together(seed: int) -> None:
    area, storeys = SIZES[seed % len(SIZES)]
    storeys = 1 + seed // len(SIZES) % 2 if area and storeys is None else storeys
    assert_holds_together(generate_apartment(seed, area=area, storeys=storeys, triangles=20_000))


def assert_holds_together(scene: Scene) -> None:
    navmesh = navmesh_of(scene)
    assert_open_doors_join_rooms(scene, navmesh)
    assert_furniture_leaves_walls_and_doors_alone(scene)
    for storey in facts(scene, "free_space"):
        truth = free_cells(storey, RADIUS)[0].sum() * CELL**2
        assert 0.88 * truth < floor_area(navmesh, storey["floor"]) < 1.01 * truth


def assert_open_doors_join_rooms(scene: Scene, navmesh: NavMesh) -> None:
    """Each room's floor is one island, the same as its neighbours' behind open doors and no other's."""
    rooms = facts(scene, "rooms")
    doors = facts(scene, "doors")
    together = {i: {i} for i in range(len(rooms))}
    for door in doors:
        if len(door["rooms"]) == 2 and not door["closed"]:
            merged = together[door["rooms"][0]] | together[door["rooms"][1]]
            together |= dict.fromkeys(merged, merged)
    island_of = np.empty(navmesh.num_polygons, int)
    for k, island in enumerate(navmesh.islands):
        island_of[island.polygons] = k
    middle = np.array([navmesh.vertices[polygon[polygon >= 0]].mean(axis=0) for polygon in navmesh.polygons])
    home: dict[int, int] = {}
    for i, room in enumerate(rooms):
        if room["type"] == "stairs":
            continue
        x0, z0, x1, z1 = room["bounds"]
        inside = (middle[:, 0] > x0) & (middle[:, 0] < x1) & (middle[:, 2] > z0) & (middle[:, 2] < z1)
        inside &= np.abs(middle[:, 1] - room["floor"]) < 0.3
        areas = np.bincount(island_of[inside], navmesh.polygon_area_xz[inside], len(navmesh.islands))
        home[i] = int(areas.argmax())
        assert areas.max() > 0.9, f"{areas.max():.2f} m2 of the {room['name']} can be walked"
        assert areas.sum() - areas.max() < 0.3, f"a part of the {room['name']} is cut off"
    for i in home:
        for j in home:
            same = home[i] == home[j]
            assert same == (j in together[i]), f"{rooms[i]['name']} and {rooms[j]['name']}: same island is {same}"


def assert_furniture_leaves_walls_and_doors_alone(scene: Scene) -> None:
    """No piece leaves its room, and none but a door's own leaf stands before a door."""
    rooms, doors, storeys = (facts(scene, key) for key in ("rooms", "doors", "free_space"))
    instances = scene.metadata["instances"]
    assert isinstance(instances, dict)
    for identity in instances:
        name = scene.objects[identity - 1].name
        if name.startswith("closed_door"):
            continue
        low, high = scene.object_boxes[identity - 1]
        assert any(
            (low[[0, 2]] > np.array(room["bounds"][:2]) - 0.005).all()
            and (high[[0, 2]] < np.array(room["bounds"][2:]) + 0.005).all()
            and low[1] > room["floor"] - 0.02
            for room in rooms
        ), f"{name} leaves its room"
        slack = 0.05 if name.startswith("door") else 0.005  # The handle of an open leaf reaches into the opening.
        for door in doors:
            floor = storeys[door["storey"]]["floor"]
            if high[1] < floor + 0.05 or low[1] > floor + 2.0:
                continue  # Rugs and lamps are in nobody's way.
            reach = (DOORWAY, door["width"] / 2) if door["axis"] == "x" else (door["width"] / 2, DOORWAY)
            shared = np.minimum(high[[0, 2]], np.add(door["center"], reach))
            shared -= np.maximum(low[[0, 2]], np.subtract(door["center"], reach))
            assert shared.min() < slack, f"{name} stands before the door of rooms {door['rooms']}"


def test_every_object_has_a_class() -> None:
    scene = home(0, 140.0, 2)
    classes = Counter(one.category for one in scene.objects)
    assert Counter(map(semantic_class, names_of(scene))) == classes
    assert set(classes) <= set(SEMANTIC_CLASSES)
    assert {"wall", "floor", "ceiling", "stairs", "window", "door", "chair", "bed", "sofa", "table"} <= set(classes)
    assert semantic_class("office_chair_12") == "chair" and semantic_class("floor_bedroom_2") == "floor"
    assert semantic_class("floor_lamp_1") == "lamp" and semantic_class("wall_cupboard_3") == "cabinet"
    with pytest.raises(ValueError, match="spaceship"):
        semantic_class("spaceship_1")


@pytest.mark.slow
def test_same_bytes_in_other_processes_and_threads() -> None:
    def made(_: int) -> str:
        return digest(generate_apartment(3, triangles=6_000))

    expected = made(0)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(made, range(2))) == [expected] * 2
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; from test_homes import digest, generate_apartment;"
        "print(digest(generate_apartment(3, triangles=6_000)))"
    )
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", program, here, os.path.dirname(here)]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.split() == [expected]


def test_sun_falls_where_a_ray_through_the_window_lands() -> None:
    plan = make_plan(np.random.default_rng(0), 70.0, 1, 0)
    for room in plan.rooms:
        for wall in room.walls:
            panes = [opening for opening in wall.openings if opening.kind == "window"]
            inward = wall.point(0, 1) - wall.point(0)
            sun = (inward - [0, 1, 0]) / 2**0.5
            if not panes or len([o for w in room.walls for o in w.openings if o.kind == "window"]) > 1:
                continue
            corners = np.concatenate(Daylight(room, sun).sun_patches())
            out = (np.stack([corners[:, 0], 0 * corners[:, 0], corners[:, 1]], axis=1) - wall.point(0)) @ inward
            # At 45 degrees the sun reaches as far as the window is high, or to the opposite wall.
            reach = room.size[0] if wall.side % 2 else room.size[1]
            assert out.min() == pytest.approx(panes[0].y0 + 0.06) and out.max() <= reach + 1e-9
            assert out.max() == pytest.approx(min(panes[0].y1 - 0.06, reach))
            assert not Daylight(room, -sun * [1, -1, 1]).sun_patches()


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(3, 3_000),
    flat=st.sampled_from([1.0, 0.01, 0.0]),
    turn=st.floats(0, 7),
)
@example(seed=21875, count=3, flat=0.0, turn=0.0)  # all points are equal
def test_hull_of_many_points_reaches_as_far_as_they_do(seed: int, count: int, flat: float, turn: float) -> None:
    points = np.clip(np.random.default_rng(seed).normal(size=(count, 2)), -0.9, 1.2) * [1, flat]
    points = (points @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]).round(4)
    hull = convex_hull(points)
    assert {tuple(corner) for corner in hull.tolist()} <= {tuple(point) for point in points.tolist()}
    angle = np.linspace(0, 2 * np.pi, 100)
    directions = np.array([np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose((hull @ directions).max(axis=0), (points @ directions).max(axis=0), atol=1e-9)


def test_a_square_is_clipped_to_the_part_in_a_rectangle() -> None:
    square = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])
    clipped = clip(square, (1, 1, 3, 3))
    assert {tuple(point) for point in clipped.tolist()} == {(1, 1), (2, 1), (2, 2), (1, 2)}
    assert len(clip(square, (5, 5, 6, 6))) == 0
