"""Scenes as arrays: what comes back is the same scene, and arrays that are not a scene are refused."""

import dataclasses
import json

import numpy as np
import pytest
from generated import home
from hypothesis import given
from hypothesis import strategies as st
from rooms import box_room

from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.packing import pack_scene, unpack_scene
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.scene.scene import Scene


def assert_same(left, right):
    """The same values of the same types, in records, containers and arrays."""
    assert type(left) is type(right)
    if isinstance(left, NavMesh):
        assert_same(left.data, right.data)
    elif dataclasses.is_dataclass(left):
        for field in dataclasses.fields(left):
            assert_same(getattr(left, field.name), getattr(right, field.name))
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype and np.array_equal(left, right)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert left == right


@pytest.fixture(scope="module")
def furnished() -> Scene:
    """A scene with everything that a scene can have."""
    room = box_room("attic ü")
    count = len(room.vertices)
    rng = np.random.default_rng(0)
    return dataclasses.replace(
        room,
        uvs=rng.random((count, 2), np.float32),
        colors=rng.integers(0, 256, (count, 4), np.uint8),
        textures=(np.zeros((2, 3, 4), np.uint8), rng.integers(0, 256, (5, 1, 4), np.uint8)),
        navmesh=NavMesh.build(room.vertices, room.triangles, NavMeshSettings(agent_radius=0.25)),
        warnings=("Up was guessed to be z", "2 lines were left out"),
        metadata={"origin": (0.0, 1.5, -2), "nested": {3: [None, True, {"a": np.eye(4)}], "number": np.float32(0.1)}},
    )


def test_a_scene_comes_back_from_disk(furnished, tmp_path):
    disk = DiskCache(tmp_path)
    for scene in (home(), furnished, box_room()):
        disk.store(scene.name, pack_scene(scene))
        assert_same(unpack_scene(disk.load(scene.name)), scene)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.text()), inner)
    ),
    max_leaves=10,
)


@given(metadata=st.dictionaries(st.text(), values))
def test_any_plain_metadata_come_back(metadata):
    scene = dataclasses.replace(box_room(), metadata=metadata)
    assert_same(unpack_scene(pack_scene(scene)).metadata, metadata)


def test_metadata_that_cannot_be_stored_are_named():
    with pytest.raises(TypeError, match="set cannot be stored"):
        pack_scene(dataclasses.replace(box_room(), metadata={"things": {1, 2}}))


def broken(name, array):
    return lambda arrays: {**arrays, name: array(arrays[name])}


def fact(name, value):
    """Change one of the facts that are stored with the arrays."""

    def changed(facts):
        return np.frombuffer(json.dumps({**json.loads(facts.tobytes()), name: value}).encode(), np.uint8)

    return broken("facts", changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: {name: array for name, array in arrays.items() if name != "facts"},
        lambda arrays: {name: array for name, array in arrays.items() if name != "triangles"},
        lambda arrays: {name: array for name, array in arrays.items() if name != "navmesh_polygons"},
        broken("facts", lambda _: np.frombuffer(b"[1]", np.uint8)),
        broken("facts", lambda _: np.frombuffer(b"nonsense", np.uint8)),
        broken("facts", lambda facts: np.frombuffer(facts.tobytes().replace(b'"tuple"', b'"other"'), np.uint8)),
        broken("vertices", lambda array: array.astype(np.float64)),
        broken("vertices", lambda array: array[:-1]),
        broken("uvs", lambda array: array[1:]),
        broken("triangles", lambda array: array[:, :2]),
        broken("triangles", lambda array: array - 1),
        broken("triangle_material", lambda array: array + 99),
        broken("triangle_object", lambda array: array[1:]),
        broken("texture", lambda array: array + 99),
        broken("picture_1", lambda array: array[..., :3]),
        broken("navmesh_neighbours", lambda array: array + 10_000),
        broken("vertices", lambda array: np.where(array == array.max(), np.float32(np.nan), array)),
        broken("vertices", lambda array: np.where(array == array.max(), np.float32(3e4), array)),
        broken("uvs", lambda array: array * np.float32(np.inf)),
        broken("base_color", lambda array: array * np.float32(np.nan)),
        broken("alpha_mode", lambda array: array + np.uint8(7)),
        broken("filter", lambda array: array + np.uint8(7)),
        broken("wrap", lambda array: array + np.uint8(7)),
        fact("name", 5),
        fact("objects", [1, 2]),
        fact("warnings", [None]),
        fact("num_pictures", 10**30),
        fact("metadata", [1]),
        fact("metadata", {"dict": [[1, 2]]}),
        fact("metadata", {"array": {"dict": []}}),
        fact("navmesh", []),
        fact("navmesh", {"agent_radius": float("inf")}),
        fact("navmesh", {"filter_ledge_spans": 3}),
        fact("navmesh", {"agent_weight": 3}),
    ],
)
def test_arrays_that_are_no_scene_are_refused(furnished, change):
    with pytest.raises(ValueError):
        unpack_scene(change(pack_scene(furnished)))
