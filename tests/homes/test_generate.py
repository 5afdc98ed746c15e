"""The generator: determinism, budgets, closed walls, doors, walkable rooms, furniture in its place."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rooms import facts, names_of

from gym_batchnav.homes import generate_apartment, shapes
from gym_batchnav.homes.layout import flood
from gym_batchnav.scene.scene import Scene

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))]
# Pieces that are attached to others, or stand on or under them.
ATTACHED = ("rug", "bath_mat", "tiles", "kitchen_things", "chair", "office_chair", "radiator", "curtain", "tableware")


@cache
def apartment(seed: int, area: float | None = 70.0, triangles: int = 40_000) -> Scene:
    """A home on one storey with all doors open."""
    return generate_apartment(seed, area=area, storeys=1, closed_doors=0, triangles=triangles)


def kinds(scene: Scene) -> np.ndarray:
    """The kind of every triangle's object: its name without its number."""
    names = np.array([name.rstrip("0123456789").rstrip("_") for name in names_of(scene)])
    return names[scene.triangle_object - 1]


def corners(scene: Scene) -> np.ndarray:
    return scene.vertices[scene.triangles]


def instances(scene: Scene) -> dict[int, tuple[str, np.ndarray]]:
    found = scene.metadata["instances"]
    assert isinstance(found, dict)
    return found


def trace(scene: Scene, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Distance along every ray to the first triangle, metres; infinite if it escapes."""
    from embreex.mesh_construction import TriangleMesh
    from embreex.rtcore_scene import EmbreeScene

    tree = EmbreeScene(robust=True)
    TriangleMesh(tree, corners(scene).astype(np.float32))
    hit = tree.run(origins.astype(np.float32), directions.astype(np.float32), query="DISTANCE")
    return np.where(hit > 1e30, np.inf, hit)


@pytest.mark.parametrize("triangles", [5_000, 10_000, 25_000, 40_000, 200_000])
@pytest.mark.slow
def test_triangle_budget_is_met(triangles: int) -> None:
    for seed in (0, 1):
        assert len(apartment(seed, triangles=triangles).triangles) == pytest.approx(triangles, rel=0.10)


def test_bad_arguments_are_refused() -> None:
    for options, reason in (
        ({"seed": -1}, "seed=-1"),
        ({"triangles": 100}, "triangles=100"),
        ({"triangles": 2_000_000}, "triangles=2000000"),
        ({"area": 10.0}, "area=10"),
        ({"area": float("nan")}, "area=nan"),
        ({"storeys": 3, "area": 300}, "storeys=3"),
        ({"storeys": 2, "area": 60}, "at least 120"),
        ({"storeys": 2}, "at least 120"),
        ({"closed_doors": -1}, "closed_doors=-1"),
        ({"closed_doors": 1.5}, "closed_doors=1.5: pass a whole number"),
        ({"seed": 1.5}, "seed=1.5: pass a whole number"),
        ({"storeys": 1.0}, "storeys=1.0"),
    ):
        with pytest.raises(ValueError, match=reason):
            generate_apartment(**{"seed": 0, **options})


@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_are_sound(seed: int) -> None:
    scene = apartment(seed)
    assert scene.uvs is not None and scene.colors is not None
    assert scene.vertices.dtype == np.float32 and scene.triangles.dtype == np.int32
    assert np.isfinite(scene.vertices).all() and np.isfinite(scene.uvs).all()
    assert len(scene.uvs) == len(scene.colors) == len(scene.vertices)
    assert np.array_equal(np.unique(scene.triangles), np.arange(len(scene.vertices)))
    a, b, c = corners(scene).astype(np.float64).transpose(1, 0, 2)
    assert np.linalg.norm(np.cross(b - a, c - a), axis=1).min() > 1e-9
    assert np.array_equal(np.unique(scene.triangle_material), np.arange(len(scene.materials)))
    assert set(scene.materials.texture) - {-1} == set(range(len(scene.textures)))
    assert np.array_equal(np.unique(scene.triangle_object), np.arange(1, len(scene.objects) + 1))
    assert len(set(scene.objects)) == len(scene.objects)
    assert len(scene.textures) <= 16
    assert all(texture.shape == (256, 256, 4) and texture.dtype == np.uint8 for texture in scene.textures)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_ray_escapes(seed: int) -> None:
    scene = apartment(seed)
    rng = np.random.default_rng(seed)
    for room in facts(scene, "rooms"):
        x0, z0, x1, z1 = room["bounds"]
        origins = rng.uniform([x0 + 0.05, 0.05, z0 + 0.05], [x1 - 0.05, 2.4, z1 - 0.05], (3_000, 3))
        distance = trace(scene, origins, rng.standard_normal((3_000, 3)))
        assert np.isfinite(distance).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_walls_face_the_rooms(seed: int) -> None:
    scene = apartment(seed)
    kind = kinds(scene)
    a, b, c = corners(scene).astype(np.float64).transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    middle = (a + b + c) / 3
    for number, room in enumerate(facts(scene, "rooms")):
        x0, z0, x1, z1 = room["bounds"]
        centre = np.array([(x0 + x1) / 2, 1.3, (z0 + z1) / 2])
        assert number < len(scene.objects)
        for part in ("floor", "ceiling"):
            of_part = kind == f"{part}_{room['type']}"
            inside = of_part & (middle[:, 0] > x0) & (middle[:, 0] < x1) & (middle[:, 2] > z0) & (middle[:, 2] < z1)
            assert inside.any()
            assert (((centre - middle) * normal).sum(axis=1)[inside] > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_doors_are_open_and_of_the_right_size(seed: int) -> None:
    scene = apartment(seed)
    for door in facts(scene, "doors"):
        if door["closed"]:
            continue
        assert door["width"] >= 0.9 and door["height"] == 2.1
        across = np.array([1.0, 0, 0] if door["axis"] == "x" else [0, 0, 1.0])
        along = across[[2, 1, 0]]
        middle = np.array([door["center"][0], 1.0, door["center"][1]])
        sides = trace(scene, np.stack([middle, middle]), np.stack([along, -along]))
        assert sides == pytest.approx([door["width"] / 2] * 2, abs=2e-3)
        assert trace(scene, middle[None], np.array([[0, 1.0, 0]])) == pytest.approx(1.1, abs=2e-3)
        assert trace(scene, middle[None], np.array([[0, -1.0, 0]])) == pytest.approx(1.0, abs=2e-3)
        through = trace(scene, np.stack([middle, middle]), np.stack([across, -across]))
        assert (through > 0.9).all(), "0.9 m in front of a door are clear"


@pytest.mark.parametrize("seed", SEEDS)
def test_furniture_stands_apart(seed: int) -> None:
    scene = apartment(seed)
    boxes = []
    triangles = corners(scene)
    for identity in instances(scene):
        points = triangles[scene.triangle_object == identity].reshape(-1, 3)
        boxes.append((scene.objects[identity - 1].name, points.min(axis=0), points.max(axis=0)))
        assert boxes[-1][1][1] > -0.01, f"{boxes[-1][0]} is sunk into the floor"
    solid = [box for box in boxes if not box[0].startswith(ATTACHED)]
    for i, (name, low, high) in enumerate(solid):
        for other, other_low, other_high in solid[:i]:
            shared = np.minimum(high, other_high) - np.maximum(low, other_low)
            assert shared.min() < 0.02, f"{name} and {other} overlap"


@pytest.mark.parametrize("seed", SEEDS)
def test_furniture_stands_on_something(seed: int) -> None:
    scene = apartment(seed)
    triangles = corners(scene)
    hanging = ("picture", "mirror", "wall_cupboard", "hood", "tiles", "coat_rack", "towel", "roll", "clock")
    hanging += ("ceiling_lamp", "curtain", "kitchen_things", "door", "basin", "tableware")
    for identity in instances(scene):
        name = scene.objects[identity - 1].name
        if not name.startswith(hanging):
            assert triangles[scene.triangle_object == identity][:, :, 1].min() == pytest.approx(0, abs=0.01), name


def test_instances_share_one_prototype() -> None:
    scene = apartment(2)
    by_key: dict[str, list[int]] = {}
    for identity, (key, _) in instances(scene).items():
        by_key.setdefault(key, []).append(identity)
    chairs = next(ids for key, ids in by_key.items() if key.startswith("dining_chair"))
    assert len(chairs) >= 2
    local = []
    for identity in chairs:
        of_object = scene.triangle_object == identity
        inverse = np.linalg.inv(instances(scene)[identity][1])
        local.append(corners(scene)[of_object] @ inverse[:3, :3].T + inverse[:3, 3])
    for other in local[1:]:
        np.testing.assert_allclose(other, local[0], atol=1e-5)


def test_homes_hold_what_homes_hold() -> None:
    wanted = ("sofa", "tv", "bed", "wardrobe", "fridge", "kitchen_sink", "kitchen_hob", "toilet", "basin")
    tables = 0
    for seed in range(3):
        names = names_of(apartment(seed))
        for piece in (*wanted, "picture", "curtain", "bookshelf", "ceiling_lamp"):
            assert f"{piece}_1" in names, f"no {piece} in apartment {seed}"
        assert "bath_tub_1" in names or "shower_1" in names
        tables += "dining_table_1" in names
    assert tables >= 2


@given(cells=arrays(bool, (9, 12), elements=st.booleans()), start=st.tuples(st.integers(0, 8), st.integers(0, 11)))
def test_flood_reaches_what_steps_from_cell_to_cell_reach(cells: np.ndarray, start: tuple[int, int]) -> None:
    waiting = [start] if cells[start] else []
    reached = np.zeros_like(cells)
    while waiting:
        row, column = waiting.pop()
        reached[row, column] = True
        for near in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if 0 <= near[0] < 9 and 0 <= near[1] < 12 and cells[near] and not reached[near]:
                waiting.append(near)
    np.testing.assert_array_equal(flood(cells, start), reached)


@pytest.mark.parametrize(
    "shape",
    [
        shapes.box((1, 2, 3)),
        shapes.box((1, 2, 3), bevel=0.1),
        shapes.rounded_box((1, 2, 3), 0.1, 2),
        shapes.rounded_box((1, 0.4, 1), 0.1, 2, 3, bulge=0.05),
        shapes.lathe([(0, 0), (1, 0), (1, 2), (0, 2)], 24),
        shapes.tube([(0, 0, 0), (0, 2, 0), (1, 2, 0)], 0.2, 12, caps=True),
    ],
)
def test_solids_are_closed_and_face_outwards(shape: shapes.Shape) -> None:
    a, b, c = shape.vertices[shape.triangles].transpose(1, 0, 2)
    assert (a * np.cross(b, c)).sum() > 0, "a positive volume"
    _, welded = np.unique(shape.vertices.round(7), axis=0, return_inverse=True)
    triangles = welded.ravel()[shape.triangles]
    edges = Counter(map(tuple, np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])))
    assert all(edges[b, a] == count for (a, b), count in edges.items())
