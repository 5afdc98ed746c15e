"""Scenes as named arrays, the form in which DiskCache stores them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.navmesh.record import NAVMESH_ARRAYS, NavMeshData
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.scene import MASK, MIRROR, NEAREST, Materials, Scene

_MESH = ("vertices", "triangles", "triangle_material", "triangle_object")
_OPTIONAL = ("uvs", "colors")
_MATERIALS = tuple(field.name for field in fields(Materials))
_LAYOUT: dict[str, tuple[type, int | None]] = {  # type and width of arrays with one row per item
    "vertices": (np.float32, 3),
    "triangles": (np.int32, 3),
    "triangle_material": (np.int32, None),
    "triangle_object": (np.int32, None),
    "uvs": (np.float32, 2),
    "colors": (np.uint8, 4),
    "base_color": (np.float32, 4),
    "texture": (np.int32, None),
    "alpha_mode": (np.uint8, None),
    "alpha_cutoff": (np.float32, None),
    "double_sided": (np.bool_, None),
    "wrap": (np.uint8, 2),
    "filter": (np.uint8, None),
}
_LARGEST_EXTENT = 1e4  # metres; far more than a navmesh can cover
_LARGEST_CODE = {"alpha_mode": MASK, "wrap": MIRROR, "filter": NEAREST}


def pack_scene(scene: Scene) -> dict[str, np.ndarray]:
    """Pack a scene into arrays of numbers, from which ``unpack_scene`` restores it.

    Raises:
        TypeError: If the metadata contain anything but numbers, text, arrays, lists, tuples and dicts.
    """
    arrays = {name: getattr(scene, name) for name in _MESH}
    arrays |= {name: getattr(scene, name) for name in _OPTIONAL if getattr(scene, name) is not None}
    arrays |= {name: getattr(scene.materials, name) for name in _MATERIALS}
    arrays |= {f"picture_{index}": picture for index, picture in enumerate(scene.textures)}
    facts: dict[str, Any] = {
        "name": scene.name,
        "objects": [[one.name, one.category, one.solid] for one in scene.objects],
        "warnings": scene.warnings,
        "num_pictures": len(scene.textures),
        "navmesh": None,
    }
    if scene.navmesh is not None:
        facts["navmesh"] = asdict(scene.navmesh.settings)
        arrays |= {f"navmesh_{name}": getattr(scene.navmesh.data, name) for name in NAVMESH_ARRAYS}
    facts["metadata"] = _encode(scene.metadata, arrays)
    arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    return arrays


def unpack_scene(arrays: Mapping[str, np.ndarray]) -> Scene:
    """Restore a scene from the arrays of ``pack_scene``, without copying them.

    Raises:
        ValueError: If the arrays are not those of a scene: a name is missing, an array has a wrong type or shape, a
            coordinate is not finite, or an index is out of range.
    """
    try:
        facts = json.loads(arrays["facts"].tobytes())
        navmesh = None
        if facts["navmesh"] is not None:
            settings = NavMeshSettings(**facts["navmesh"])
            navmesh = NavMesh(
                NavMeshData(**{name: arrays[f"navmesh_{name}"] for name in NAVMESH_ARRAYS}, settings=settings)
            )
        geometry: dict[str, Any] = {name: arrays[name] for name in (*_MESH, *(set(_OPTIONAL) & arrays.keys()))}
        scene = Scene(
            name=_text(facts["name"]),
            **geometry,
            materials=Materials(**{name: arrays[name] for name in _MATERIALS}),
            textures=tuple(arrays[f"picture_{index}"] for index in range(facts["num_pictures"])),
            objects=tuple(SceneObject(_text(name), _text(kind), bool(solid)) for name, kind, solid in facts["objects"]),
            navmesh=navmesh,
            warnings=tuple(map(_text, facts["warnings"])),
            metadata=_metadata(facts["metadata"], arrays),
        )
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not a stored scene: {error!r}") from error
    _check(scene)
    return scene


def _text(value: Any) -> str:
    """Return a value unchanged; raise ValueError unless it is text."""
    if not isinstance(value, str):
        raise ValueError(f"not a stored scene: a {type(value).__name__} instead of text")
    return value


def _metadata(stored: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Return the metadata; raise ValueError unless they are a dict with text as keys."""
    metadata = _decode(stored, arrays)
    if not isinstance(metadata, dict):
        raise ValueError(f"not a stored scene: its metadata is a {type(metadata).__name__}")
    return {_text(name): value for name, value in metadata.items()}


def _encode(value: object, arrays: dict[str, np.ndarray]) -> object:
    """Encode a value for JSON: arrays are moved to ``arrays``, and types other than plain values are tagged."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encode(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, arrays) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": [[_encode(key, arrays), _encode(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)):
        name = f"metadata_{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "scalar": name}
    raise TypeError(f"metadata with a {type(value).__name__} cannot be stored: use numbers, text, arrays or lists")


def _decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decode(item, arrays) for item in content)
    if kind == "dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in content}
    return arrays[content] if kind == "array" else arrays[content][()]


def _check(scene: Scene) -> None:
    """Raise ValueError for arrays that kernels could not read safely."""
    for record in (scene, scene.materials):
        for name, (dtype, width) in _LAYOUT.items():
            array = getattr(record, name, None)
            if array is None:
                continue
            if array.dtype != dtype or array.ndim == 0 or array.shape[1:] != ((width,) if width else ()):
                raise ValueError(f"not a stored scene: {name} is {array.dtype} {array.shape}")
            if dtype is np.float32 and not np.isfinite(array).all():
                raise ValueError(f"not a stored scene: some {name} are not finite")
            if array.size and array.max() > _LARGEST_CODE.get(name, np.inf):
                raise ValueError(f"not a stored scene: {name} of {array.max()}")
    points = scene.vertices
    if len(points) and np.any(points.max(axis=0).astype(float) - points.min(axis=0) > _LARGEST_EXTENT):
        raise ValueError(f"not a stored scene: it is larger than {_LARGEST_EXTENT / 1000:g} km")
    for picture in scene.textures:
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 4 or not picture.size:
            raise ValueError(f"not a stored scene: a picture is {picture.dtype} {picture.shape}")
    scene.check()
