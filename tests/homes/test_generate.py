"""The generator: determinism, budgets, closed walls, doors, walkable rooms, furniture in its place."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import trimesh
from glb import soup
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rays import trace
from rooms import facts, names_of
from scipy.ndimage import label

from gym_batchnav.homes import generate_apartment, shapes
from gym_batchnav.homes.layout import flood
from gym_batchnav.scene.scene import Scene

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))]
# Pieces that are attached to others, or stand on or under them.
ATTACHED = ("rug", "bath_mat", "tiles", "kitchen_things", "chair", "office_chair", "radiator", "curtain", "tableware")


@cache
def apartment(seed: int, area: float | None = 70.0, triangles: int = 20_000) -> Scene:
    """A home on one storey with all doors open."""
    return generate_apartment(seed, area=area, storeys=1, closed_doors=0, triangles=triangles)


@pytest.fixture(scope="module", params=SEEDS)
def scene(request: pytest.FixtureRequest) -> Scene:
    return apartment(request.param)


def kinds(scene: Scene) -> np.ndarray:
    """The kind of every triangle's object: its name without its number."""
    names = np.array([name.rstrip("0123456789").rstrip("_") for name in names_of(scene)])
    return names[scene.triangle_object - 1]


def instances(scene: Scene) -> dict[int, tuple[str, np.ndarray]]:
    found = scene.metadata["instances"]
    assert isinstance(found, dict)
    return found


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
        ({"closed_doors": ""}, "closed_doors=''"),
        ({"closed_doors": 1.5}, "closed_doors=1.5: pass a whole number"),
        ({"seed": 1.5}, "seed=1.5: pass a whole number"),
        ({"storeys": 1.0}, "storeys=1.0"),
    ):
        with pytest.raises(ValueError, match=reason):
            generate_apartment(**{"seed": 0, **options})


def test_arrays_are_sound(scene: Scene) -> None:
    assert scene.uvs is not None and scene.colors is not None
    assert scene.vertices.dtype == np.float32 and scene.triangles.dtype == np.int32
    assert np.isfinite(scene.vertices).all() and np.isfinite(scene.uvs).all()
    assert len(scene.uvs) == len(scene.colors) == len(scene.vertices)
    assert np.array_equal(np.unique(scene.triangles), np.arange(len(scene.vertices)))
    a, b, c = soup(scene).transpose(1, 0, 2)
    assert np.linalg.norm(np.cross(b - a, c - a), axis=1).min() > 1e-9
    assert np.array_equal(np.unique(scene.triangle_material), np.arange(len(scene.materials)))
    assert set(scene.materials.texture) - {-1} == set(range(len(scene.textures)))
    assert np.array_equal(np.unique(scene.triangle_object), np.arange(1, len(scene.objects) + 1))
    assert len(set(scene.objects)) == len(scene.objects)
    assert len(scene.textures) <= 16
    assert all(texture.shape == (256, 256, 4) and texture.dtype == np.uint8 for texture in scene.textures)


def test_no_ray_escapes(scene: Scene) -> None:
    rng = np.random.default_rng(0)
    for room in facts(scene, "rooms"):
        x0, z0, x1, z1 = room["bounds"]
        origins = rng.uniform([x0 + 0.05, 0.05, z0 + 0.05], [x1 - 0.05, 2.4, z1 - 0.05], (3_000, 3))
        distance = trace(scene, origins, rng.standard_normal((3_000, 3)))
        assert np.isfinite(distance).all()


def test_walls_face_the_rooms(scene: Scene) -> None:
    kind = kinds(scene)
    a, b, c = soup(scene).transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    middle = (a + b + c) / 3
    for room in facts(scene, "rooms"):
        x0, z0, x1, z1 = room["bounds"]
        centre = np.array([(x0 + x1) / 2, 1.3, (z0 + z1) / 2])
        for part in ("floor", "ceiling"):
            of_part = kind == f"{part}_{room['type']}"
            inside = of_part & (middle[:, 0] > x0) & (middle[:, 0] < x1) & (middle[:, 2] > z0) & (middle[:, 2] < z1)
            assert inside.any()
            assert (((centre - middle) * normal).sum(axis=1)[inside] > 0).all()


@pytest.mark.slow
def test_doors_are_open_and_of_the_right_size(scene: Scene) -> None:
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


def test_furniture_stands_apart_and_on_something(scene: Scene) -> None:
    hanging = ("picture", "mirror", "wall_cupboard", "hood", "tiles", "coat_rack", "towel", "roll", "clock")
    hanging += ("ceiling_lamp", "curtain", "kitchen_things", "door", "basin", "tableware")
    boxes = [(scene.objects[identity - 1].name, *scene.object_boxes[identity - 1]) for identity in instances(scene)]
    for name, low, _ in boxes:
        assert low[1] > -0.01 and (name.startswith(hanging) or low[1] < 0.01), name
    solid = [box for box in boxes if not box[0].startswith(ATTACHED)]
    for i, (name, low, high) in enumerate(solid):
        for other, other_low, other_high in solid[:i]:
            shared = np.minimum(high, other_high) - np.maximum(low, other_low)
            assert shared.min() < 0.02, f"{name} and {other} overlap"


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
        local.append(soup(scene)[of_object] @ inverse[:3, :3].T + inverse[:3, 3])
    for other in local[1:]:
        np.testing.assert_allclose(other, local[0], atol=1e-5)


def test_homes_hold_what_homes_hold() -> None:
    wanted = ("sofa", "tv", "bed", "wardrobe", "fridge", "kitchen_sink", "kitchen_hob", "toilet", "basin")
    tables = 0
    for seed in (0, 2):
        names = names_of(apartment(seed))
        for piece in (*wanted, "picture", "curtain", "bookshelf", "ceiling_lamp"):
            assert f"{piece}_1" in names, f"no {piece} in apartment {seed}"
        assert "bath_tub_1" in names or "shower_1" in names
        tables += "dining_table_1" in names
    assert tables


@given(cells=arrays(bool, (9, 12), elements=st.booleans()), start=st.tuples(st.integers(0, 8), st.integers(0, 11)))
def test_flood_reaches_what_steps_from_cell_to_cell_reach(cells: np.ndarray, start: tuple[int, int]) -> None:
    regions, _ = label(cells)
    np.testing.assert_array_equal(flood(cells, start), cells & cells[start] & (regions == regions[start]))


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
    solid = trimesh.Trimesh(shape.vertices.round(7), shape.triangles)
    assert solid.is_watertight and solid.is_winding_consistent and solid.volume > 0
