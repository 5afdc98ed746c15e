"""Scenes from files: GLB, glTF, OBJ, PLY and STL into one Scene record."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.assemble import SceneBuilder, Surface
from gym_batchnav.scene.files import SceneError, SceneFiles
from gym_batchnav.scene.mesh import Scene
from gym_batchnav.scene.read_gltf import read_gltf
from gym_batchnav.scene.read_obj import linear_colors, read_obj

__all__ = ["SUFFIXES", "SceneError", "load_scene"]

SUFFIXES = (".glb", ".gltf", ".obj", ".ply", ".stl")
_VERSION = 1  # of what this loader makes of a file; part of content_hash
_Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
_CLEARLY = 2.0  # how many times more horizontal than vertical surface shows which way is up


def load_scene(path: str | Path, *, name: str | None = None, up: str = "auto", scale: str | float = "auto") -> Scene:
    """Load a scene from a GLB, glTF, OBJ, PLY or STL file.

    Every scene-graph node with triangles (in OBJ every ``o``, else every ``g``) becomes an object with a semantic id.
    Skins, animations, lights, lines and points are left out; textures above 2,048 pixels a side are scaled down;
    missing textures are replaced by the base colour with a warning. A file of the same name that ends in ``.navmesh``
    is read into ``Scene.navmesh``. What was left out or guessed stands in ``Scene.warnings``.

    Args:
        path: The file. What it refers to is read from its own folder only.
        name: The scene's name; the file's name without its suffix by default.
        up: ``"y"``, ``"z"`` (which is turned into y up) or ``"auto"``: y for glTF, as specified. For the others, that
            of y and z which at least twice as much surface faces; if neither, y for OBJ and z for PLY and STL.
        scale: Metres in the file's unit, or ``"auto"``: 1 for glTF, as specified. For the others a scene higher than
            1,000 units is in millimetres and one higher than 100 in centimetres.

    Raises:
        SceneError: the file cannot be loaded; the message says why and what to do.
        ValueError: ``up`` or ``scale`` is none of the above.
    """
    path = Path(path)
    if up not in ("auto", "y", "z"):
        raise ValueError(f"up={up!r}: choose 'auto', 'y' or 'z'")
    if scale != "auto" and not (isinstance(scale, (int, float)) and 0 < scale < np.inf):
        raise ValueError(f"scale={scale!r}: give the metres in a unit of the file, or 'auto'")
    suffix = path.suffix.lower()
    if path.is_dir():
        raise SceneError(f"scene '{path}' is a folder: give a file in it")
    if suffix not in SUFFIXES:
        raise SceneError(f"scene '{path}': files ending in {suffix!r} are not read, give one of {', '.join(SUFFIXES)}")
    files = SceneFiles(path)
    try:
        if not files.main():
            raise ValueError("it is empty: copy or download it again")
        files.add_to_hash(f"{_VERSION} {suffix} {up} {scale}")
        scene = _load(files, suffix, name or path.stem, up, scale)
    except OSError as error:
        raise SceneError(f"scene '{path}': {error}: put the file there or mend the name") from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
        plain = str(error) if isinstance(error, ValueError) else f"it is malformed ({error!r}): re-export it"
        raise SceneError(f"scene '{path}': {plain}") from error
    if files.missing:
        warnings.warn(f"scene '{path}': {scene.warnings[-1]}", stacklevel=2)
    return scene


def _load(files: SceneFiles, suffix: str, name: str, up: str, scale: str | float) -> Scene:
    builder = SceneBuilder(files)
    if suffix in (".glb", ".gltf"):
        read_gltf(files, builder)
        matrix = _frame(up if up != "auto" else "y", float(scale) if scale != "auto" else 1.0)
    else:
        if suffix == ".obj":
            read_obj(files, builder)
        else:
            _read_with_trimesh(files, builder, suffix)
        matrix = _guess_frame(files, builder, "y" if suffix == ".obj" else "z", up, scale)
    beside = files.path.with_suffix(".navmesh")
    navmesh = None
    if beside.is_file():
        files.beside(beside.name)  # so that it counts in the hash
        navmesh = NavMesh.load(beside)
    return builder.build(name, matrix, navmesh)


def _read_with_trimesh(files: SceneFiles, builder: SceneBuilder, suffix: str) -> None:
    """Add a PLY or STL file, one object for each of its meshes; vertex colours count as sRGB."""
    data = files.main()
    try:
        options: dict[str, Any] = {"process": False, "skip_materials": True} if suffix == ".ply" else {"process": False}
        loaded = trimesh.load_scene(io.BytesIO(data), file_type=suffix[1:], **options)
    except Exception as error:  # trimesh raises anything on damaged files
        raise ValueError(f"it cannot be read ({error!r}): re-export it") from error
    image = _ply_image(files, builder, data) if suffix == ".ply" else -1
    for node in loaded.graph.nodes_geometry:
        matrix, key = loaded.graph[node]
        mesh: Any = loaded.geometry[key]
        if not isinstance(mesh, trimesh.Trimesh):
            files.warnings.append("A cloud of points was left out")
            continue
        visual: Any = mesh.visual
        vertices, triangles = np.asarray(mesh.vertices), np.asarray(mesh.faces)
        if len(triangles) and not 0 <= triangles.min() <= triangles.max() < len(vertices):
            raise ValueError("it has triangles of vertices that do not exist: the file is damaged")
        uvs, colors = getattr(visual, "uv", None), None
        if visual.kind == "face":
            vertices, triangles = vertices[triangles.ravel()], np.arange(3 * len(triangles)).reshape(-1, 3)
            colors = linear_colors(np.repeat(visual.face_colors, 3, axis=0) / 255)
        elif visual.kind == "vertex":
            colors = linear_colors(visual.vertex_colors / 255)
        if uvs is not None and image >= 0:
            uvs = np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1)
        surface = Surface(image=image if uvs is not None else -1, double_sided=True)
        part = builder.part(vertices, triangles, surface, uvs if image >= 0 else None, colors)
        object_name = files.path.stem if str(key).startswith("geometry") else str(key)
        builder.add_object(object_name, [part] if part else [], matrix)


def _ply_image(files: SceneFiles, builder: SceneBuilder, data: bytes) -> int:
    """The builder's number of the picture that a PLY header names as ``comment TextureFile``, -1 for none."""
    header = data[: data.find(b"end_header")]
    match = re.search(rb"^comment\s+TextureFile\s+(.+?)\s*$", header, re.MULTILINE)
    if not match:
        return -1
    name = match[1].decode(errors="replace")
    try:
        return builder.add_image(files.beside(name), name)
    except OSError:
        return builder.add_image(None, name)


def _frame(up: str, scale: float) -> np.ndarray:
    """The matrix [4, 4] that takes a file's frame to y up in metres."""
    matrix = np.eye(4)
    matrix[:3, :3] = scale * (_Z_UP if up == "z" else np.eye(3))
    return matrix


def _guess_frame(files: SceneFiles, builder: SceneBuilder, usual_up: str, up: str, scale: str | float) -> np.ndarray:
    """The matrix [4, 4] to y up in metres for a format that says neither; what is guessed is added to the warnings."""
    vertices, triangles = builder.vertices_and_triangles()
    if len(triangles) == 0:
        return np.eye(4)
    if up == "auto":
        a, b, c = (vertices[triangles[:, k]] for k in range(3))
        normals = np.cross(b - a, c - a)
        lengths = np.linalg.norm(normals, axis=1)
        facing_y, facing_z = (lengths[np.abs(normals[:, axis]) > 0.95 * lengths].sum() for axis in (1, 2))
        up = "y" if facing_y > _CLEARLY * facing_z else "z" if facing_z > _CLEARLY * facing_y else usual_up
        if up == "z":
            files.warnings.append("Up was guessed to be z: load it with up='y' if the scene lies on its side")
        elif usual_up == "z":
            files.warnings.append("Up was guessed to be y: load it with up='z' if the scene lies on its side")
    if scale == "auto":
        height = float(np.ptp(vertices[:, 1 if up == "y" else 2]))
        scale = 0.001 if height > 1000 else 0.01 if height > 100 else 1.0
        if scale != 1.0:
            unit = "millimetres" if scale == 0.001 else "centimetres"
            files.warnings.append(
                f"It is {height:g} units high, which were taken for {unit}: give scale= if they are not"
            )
    return _frame(up, float(scale))
