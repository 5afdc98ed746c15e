"""Loading of scenes from GLB, glTF, OBJ, PLY, STL, OFF and MuJoCo XML files."""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.builder import SceneBuilder
from gym_batchnav.scene.files import MAX_FILE_BYTES, MAX_TEXT_BYTES, SceneError, SceneFiles, SceneNotFoundError, naming
from gym_batchnav.scene.formats.gltf import read_gltf
from gym_batchnav.scene.formats.mjcf import model_files, read_mjcf
from gym_batchnav.scene.formats.mjcf_document import MAX_XML_BYTES, MJCF_SUFFIX
from gym_batchnav.scene.formats.obj import read_obj
from gym_batchnav.scene.formats.via_trimesh import read_with_trimesh
from gym_batchnav.scene.frame import Z_UP, Frame, place
from gym_batchnav.scene.habitat.config import read_stage_config
from gym_batchnav.scene.json_values import MAX_GLTF_JSON_BYTES
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.annotate import annotate, semantics_beside
from gym_batchnav.scene.simplify import simplify_scene, with_source
from gym_batchnav.scene.textures import AUTO, check_texture_size
from gym_batchnav.system.numbers import check_choice, check_counts, is_number
from gym_batchnav.system.progress import report_stage
from gym_batchnav.system.storage import check_content

__all__ = ["SUFFIXES", "SceneError", "SceneNotFoundError", "check_load_options", "load_scene"]

SUFFIXES = (".glb", ".gltf", ".obj", ".ply", ".stl", ".off", MJCF_SUFFIX)
_GLTF = (".glb", ".gltf")
_MAX_BYTES = {".gltf": MAX_GLTF_JSON_BYTES, ".obj": MAX_TEXT_BYTES, ".off": MAX_TEXT_BYTES, MJCF_SUFFIX: MAX_XML_BYTES}
_MARGIN = 1.0  # metres by which a scene's own navmesh or annotated mesh may exceed its bounds


def load_scene(
    path: str | Path,
    *,
    name: str | None = None,
    up: str = "auto",
    scale: str | float = "auto",
    scene: str | None = None,
    semantics: bool = True,
    texture_size: int | str = "auto",
    max_triangles: int | None = None,
) -> Scene:
    """Load a scene from a GLB, glTF, OBJ, PLY, STL, OFF or MuJoCo XML file.

    Every scene-graph node with triangles (in OBJ every ``o``, else every ``g``; in MuJoCo's XML every body of the
    world) becomes an object with a semantic id. Skinned meshes are in their rest pose. Animations, lights, lines and
    points are left out; missing textures are replaced by the base colour with a warning. A file of the same name that
    ends in ``.navmesh`` is read into ``Scene.navmesh``. Annotations in the layouts of HM3D (``NAME.semantic.glb`` and
    ``NAME.semantic.txt``), MP3D (``NAME_semantic.ply`` and ``NAME.house``), Gibson (``NAME_semantic.ply`` and
    ``NAME.scn``) and Replica replace the objects; they need the extra ``[formats]``. ``Scene.warnings`` lists content
    that was left out or guessed; guesses that affect sizes, positions or appearance are also issued as Python warnings.

    Textures are scaled down to ``texture_size`` one by one. With ``"auto"`` it is the largest of 2,048, 1,024, 512, ...
    with which all textures together take at most 256 MiB; ``metadata["texture_size"]`` has the result. Geometry is
    simplified only if ``max_triangles`` asks for it, where the errors are smallest. ``Scene.unsimplified`` then loads
    the whole geometry, from which navmeshes are built.

    The file is not trusted: its content is checked before use, its references are followed only inside its own folder
    (those of MuJoCo's XML to meshes, textures and models also in neighbouring folders), and its size, textures and
    triangles are limited.

    ``Scene.metadata`` holds ``up``, ``scale`` and ``origin``: a vertex of the file is rotated, scaled and then moved by
    -``origin``. With ``"auto"`` the first of these rules that applies decides. The up axis is

    - ``up`` and ``front`` of a Habitat ``NAME.stage_config.json`` next to the file
    - z for glTF whose ``.navmesh`` lies within the scene only with z up, as in scans for Habitat
    - y for glTF, z for MuJoCo's XML, as specified, with a warning for glTF that seems to lie on its side
    - y or z, if at least twice as much surface faces it as the other
    - y for OBJ; z for PLY, STL and OFF

    and the scale is

    - ``units_to_meters`` and ``scale`` of that configuration
    - 1 for glTF and MuJoCo's XML, as specified, with a warning for a scene higher than 1,000 m
    - 0.001 (millimetres) for a scene higher than 1,000 units
    - 0.01 (centimetres) for one higher than 100 units
    - 1

    The origin is moved only if there are coordinates beyond 8,192 m, which would be coarse in float32, and no
    ``.navmesh`` next to the file; with one there is a warning instead.

    Args:
        path: The file.
        name: The scene's name; the file's name without its suffix by default.
        up: The axis of the file that points up, ``"y"``, ``"z"`` or ``"auto"``.
        scale: Metres per unit of the file, or ``"auto"``.
        scene: Name of the scene to load from a glTF file with several; the file's default scene if not given.
        semantics: Whether to read annotations next to the file.
        texture_size: Longest side of a texture in pixels, 1 to 8,192, or ``"auto"``.
        max_triangles: Limit of the number of triangles; see ``Scenes`` for what it costs. None keeps them all.

    Raises:
        SceneNotFoundError: If the file does not exist; it is a SceneError and a FileNotFoundError.
        SceneError: If the file cannot be loaded; the message gives the reason and the remedy.
        ValueError: If ``up``, ``scale``, ``texture_size`` or ``max_triangles`` is none of the above.
    """
    path = Path(os.path.expanduser(path))
    check_choice("up", up, ("auto", "y", "z"))
    if scale != "auto" and not (is_number(scale) and scale > 0):
        raise ValueError(f"scale={scale!r}: pass the metres per unit of the file, a positive number, or leave it out")
    check_load_options(texture_size, max_triangles)
    suffix = path.suffix.lower()
    if os.path.isdir(path):
        raise SceneError(path, "it is a folder: pass a file in it")
    if suffix not in SUFFIXES:
        raise SceneError(path, _other_ending(path))
    if scene is not None and suffix not in _GLTF:
        raise SceneError(path, f"only glTF files hold several scenes: leave scene={scene!r} out")
    if not os.path.exists(path):  # unlike Path.exists, False also for a name that is too long
        raise SceneNotFoundError(path)
    files = model_files(path) if suffix == MJCF_SUFFIX else SceneFiles(path)
    report_stage(f"{path.name}: reading")
    with naming(path, "re-export it"):
        check_content(files.main(_MAX_BYTES.get(suffix, MAX_FILE_BYTES)))
        builder = SceneBuilder(files, texture_size)
        loaded = _load(files, builder, suffix, name or path.stem, up, scale, scene, semantics)
        if max_triangles is not None and len(loaded.triangles) > max_triangles:
            again = partial(
                load_scene, path.absolute(), name=name, up=up, scale=scale, scene=scene, semantics=semantics,
                texture_size=1,
            )  # fmt: skip
            report_stage(f"{path.name}: simplifying")
            loaded = simplify_scene(with_source(loaded, again), max_triangles)
    for sentence in files.python_warnings:
        warnings.warn(f"scene '{path}': {sentence}", stacklevel=2)
    return loaded


def check_load_options(texture_size: object = AUTO, max_triangles: int | None = None) -> None:
    """Raise ValueError unless ``load_scene`` accepts ``texture_size`` and ``max_triangles``."""
    check_texture_size(texture_size)
    if max_triangles is not None:
        check_counts(max_triangles=max_triangles)


def _other_ending(path: Path) -> str:
    """Return the reason why a file of this name is not read, with the remedy."""
    known = ", ".join(SUFFIXES)
    if path.suffix:
        habitat = ", or a Habitat dataset's X.scene_dataset_config.json as scenes=" if path.suffix == ".json" else ""
        return f"files ending in {path.suffix!r} are not supported: pass one of {known}{habitat}"
    name = path.name
    environment = f"gymnasium.make_vec('BatchNav/PointNav-v0', scenes={name!r})"
    file = f"load_scene(gym_batchnav.library.sources.shipped_scenes()[{name!r}])"
    return f"it is not a scene file ({known}); if it is the name of a shipped scene, use {environment} or {file}"


def _load(
    files: SceneFiles,
    builder: SceneBuilder,
    suffix: str,
    name: str,
    up: str,
    scale: str | float,
    scene: str | None,
    semantics: bool,
) -> Scene:
    walkable = files.path.with_suffix(".navmesh")
    navmesh = None
    if walkable.is_file():
        files.beside(walkable.name)  # records its digest
        navmesh = NavMesh.load(walkable)
    if suffix in _GLTF:
        read_gltf(files, builder, scene)
    elif suffix == ".obj":
        read_obj(files, builder)
    elif suffix == MJCF_SUFFIX:
        read_mjcf(files, builder)
    else:
        read_with_trimesh(files, builder)
    vertices, triangles = builder.vertices_and_triangles()
    stated = read_stage_config(files) if "auto" in (up, scale) else None
    if up == "auto" and stated is None and suffix in _GLTF and navmesh is not None:
        up = _up_of_navmesh(files, navmesh, vertices, 1.0 if scale == "auto" else float(scale))
    vertices, frame = place(files, vertices, triangles, up, scale, stated)
    if navmesh is not None and navmesh.num_polygons and not _is_within(navmesh.floor_bounds, vertices):
        raise ValueError(
            f"'{walkable.name}' spans {_box(*navmesh.floor_bounds)} m, which is not within the scene's "
            f"{_box(*_bounds(vertices))} m: remove it if it belongs to another scene, or pass "
            "the up= and scale= of the navmesh"
        )
    metadata = {**frame.facts(), "files": files.digests}
    built = builder.build(name, vertices, triangles, navmesh, metadata)
    found = semantics_beside(files.path) if semantics else None
    return built if found is None else annotate(built, files, found, partial(_place_annotated, frame, vertices))


def _up_of_navmesh(files: SceneFiles, navmesh: NavMesh, vertices: np.ndarray, scale: float) -> str:
    """Return the up axis "z" of a glTF file if its navmesh fits only so, else "y", as specified.

    Habitat takes z for the up axis of a GLB without a configuration, and scans for Habitat are such files.
    """
    corners = scale * _bounds(vertices)
    if _is_within(navmesh.floor_bounds, corners) or not _is_within(navmesh.floor_bounds, corners @ Z_UP.T):
        return "y"
    files.warnings.append(
        "Its up axis was taken to be z, as in scans for Habitat, because only then is its navmesh within the scene"
    )
    return "z"


def _place_annotated(frame: Frame, scene_vertices: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Transform vertices [V, 3] of an annotated mesh to the scene's frame.

    They are in the frame of the scene's file, except for those of Gibson, whose y is up where the scene's z is up.
    """
    placed = frame.apply(vertices)
    is_upright = frame.up == "z" and len(vertices) > 0 and not _is_within(_bounds(placed), scene_vertices)
    return vertices if is_upright and _is_within(_bounds(vertices), scene_vertices) else placed


def _bounds(vertices: np.ndarray) -> np.ndarray:
    """Return the lowest and highest coordinates [2, 3] of vertices [V, 3]."""
    return np.stack([vertices.min(axis=0), vertices.max(axis=0)])


def _is_within(bounds: np.ndarray, vertices: np.ndarray) -> bool:
    """Return whether bounds [2, 3] do not exceed those of vertices [V, 3] by more than a margin."""
    low, high = _bounds(vertices)
    return not ((bounds[0] < low - _MARGIN) | (bounds[1] > high + _MARGIN)).any()


def _box(low: np.ndarray, high: np.ndarray) -> str:
    spans = (f"{axis} {start:.1f} to {end:.1f}" for axis, start, end in zip("xyz", low, high, strict=True))
    return ", ".join(spans)
