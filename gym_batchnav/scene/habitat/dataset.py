"""Habitat's scene datasets: JSON files that list stages and objects and place them, each scene as one Scene.

All files lie in the folder of ``X.scene_dataset_config.json``, of which these keys are read:

- ``stages``, ``objects``, ``scene_instances``: ``paths`` (folders or patterns, by ending) and ``default_attributes``;
  of stages and objects also ``configs`` (templates in the dataset's file: ``attributes`` with a ``template_handle``, or
  an ``original_file`` that they change);
- ``navmesh_instances``: navmeshes by name.

Keys of a stage or an object (``NAME.stage_config.json``, ``NAME.object_config.json``, or the asset itself):
``render_asset``, ``up``, ``front``, ``scale``, ``units_to_meters``; of a stage ``nav_asset``, ``semantic_asset``,
``semantic_descriptor_filename``, ``semantic_up`` and ``semantic_front``; of an object ``COM``, ``semantic_id`` and
``is_collidable``.

Keys of a scene (``NAME.scene_instance.json``): ``stage_instance`` (``template_name``, ``uniform_scale``,
``non_uniform_scale``), ``object_instances``
(``template_name``, ``translation``, ``rotation`` [w, x, y, z], ``uniform_scale``, ``non_uniform_scale``,
``translation_origin``, ``is_collidable``), ``translation_origin``, ``navmesh_instance`` and
``semantic_scene_instance``.

Nothing moves, so every object instance is an obstacle of the navmesh that is built, whatever its ``motion_type``,
unless it is not collidable. Doors are obstacles where they are object instances. Lights and articulated objects, such
as doors that open, are neither seen nor obstacles. A ``navmesh_instance`` is used as it is.

Articulated objects, a stage's ``origin`` and its place in a scene are left out with a warning; lights, shaders and
physics without one.
"""

from __future__ import annotations

import posixpath
import reprlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.builder import MAX_PARTS, Placed, compose
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.files import SceneError, SceneFiles, naming, naming_part
from gym_batchnav.scene.frame import Z_UP
from gym_batchnav.scene.habitat.config import (
    LARGEST,
    ObjectCategories,
    PatternSearch,
    asset_frame,
    rotation_of,
    semantic_frame,
)
from gym_batchnav.scene.json_values import MAX_JSON_BYTES, mapping, numbers, parse_json, sequence
from gym_batchnav.scene.load import SUFFIXES, load_scene
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.annotate import SemanticFiles, annotate
from gym_batchnav.scene.simplify import simplify_scene, with_source
from gym_batchnav.scene.textures import AUTO, Textures

_OWN_NAME = "%%CONFIG_NAME_AS_ASSET_FILENAME%%"  # stands for the name of the stage or object, to the first dot
_FILES = {"render_asset", "nav_asset", "semantic_asset", "semantic_descriptor_filename"}  # attributes that name files
_STAND_IN = np.zeros((1, 1, 4), np.uint8)
DATASET_ENDING = ".scene_dataset_config.json"
_ENDINGS = {"stages": ".stage_config.json", "objects": ".object_config.json", "scene_instances": ".scene_instance.json"}


def list_scenes(dataset: Path) -> list[str]:
    """List the scene instances of a dataset, or its stages if it has none: paths in the dataset's folder, sorted.

    Raises:
        SceneError: If the dataset's file cannot be read, or lists no scene.
    """
    with naming(dataset, "fix it"):
        files = _Dataset(dataset)
        stages = (handle for handle in files.listed("stages") if (dataset.parent / handle).is_file())
        handles = files.listed("scene_instances") or list(stages)
        if not handles:
            raise ValueError("it has neither scene instances nor stages: fix the paths in it")
    configs = {_without_ending(handle) for handle in handles if handle.endswith(".json")}
    return [handle for handle in handles if handle.endswith(".json") or _without_ending(handle) not in configs]


def scene_name(handle: str) -> str:
    """Return the name of a dataset's scene: the name of its file without the ending."""
    name = PurePosixPath(handle).name
    for ending in (*_ENDINGS.values(), *SUFFIXES):
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def load_habitat_scene(
    dataset: str | Path, handle: str, *, texture_size: int | str = AUTO, max_triangles: int | None = None
) -> Scene:
    """Load one scene of a Habitat scene dataset; see this module for what is supported.

    Args:
        dataset: The ``.scene_dataset_config.json``.
        handle: One of ``list_scenes``.
        texture_size: See ``load_scene``; ``"auto"`` is for the textures of the stage and all objects together.
        max_triangles: See ``load_scene``; it counts the stage and all objects.

    Returns:
        The Scene. Its objects are those of the stage's annotations or else of its file, and one per object instance,
        with the name of its template; see ``habitat.config`` for its category. ``metadata["files"]`` lists all
        files by their paths in the dataset's folder, and ``metadata["semantics"]`` the name of the annotations.

    Raises:
        SceneError: If it cannot be loaded; the message gives the reason and the remedy.
    """
    dataset = Path(dataset)
    with naming(dataset.parent / handle, "fix it"):
        files = _Dataset(dataset, texture_size)
        scene = files.scene_instance(handle) if handle.endswith(_ENDINGS["scene_instances"]) else files.stage(handle)
        textures = files.textures
        scene = replace(
            scene,
            name=scene_name(handle),
            textures=textures.all(),
            warnings=(*scene.warnings, *files.warnings),
            metadata={
                **scene.metadata,
                "files": files.digests,
                **({"texture_size": textures.size} if len(textures) else {}),
            },
        )
        if max_triangles is None or len(scene.triangles) <= max_triangles:
            return scene
        again = partial(load_habitat_scene, dataset.absolute(), handle, texture_size=1)
        return simplify_scene(with_source(scene, again), max_triangles)


class _Template(NamedTuple):
    asset: Scene
    mass: np.ndarray  # [3] float64, metres: the centre of mass in the asset's frame
    whole: SceneObject


class _Dataset:
    """A dataset's files, with a record of those that are read.

    Attributes:
        digests: SHA-256 of every file read, "" for one that is missing, by path in the dataset's folder.
        warnings: Content that was left out, one sentence each.
        textures: The textures of all assets read so far, which the scenes of the assets have stand-ins for.
    """

    def __init__(self, path: Path, texture_size: int | str = AUTO) -> None:
        self._folder = path.parent
        self.textures = Textures(texture_size)
        self._files = SceneFiles(path)
        self.digests = self._files.digests
        self.warnings: list[str] = []
        self._search = PatternSearch(self._folder)
        self._handles: dict[str, list[str]] = {}  # by kind
        self._own_templates: dict[str, dict[str, Mapping[str, Any]]] = {}  # by kind and handle
        self._templates: dict[tuple[str, str], str] = {}  # handles by kind and template_name
        self._config = self._json(path.name)

    def listed(self, kind: str) -> list[str]:
        """Return the handles of ``"stages"``, ``"objects"`` or ``"scene_instances"``, sorted.

        A handle is the path of a file in the folder, or what would be the path of a template in the dataset's file.
        """
        section = mapping(self._config.get(kind, {}), kind)
        found = set(self._own(kind))
        for ending, patterns in mapping(section.get("paths", {}), "paths").items():
            suffix = _ENDINGS[kind] if ending == ".json" else ending.lower()
            for pattern in patterns if isinstance(patterns, list) else [patterns]:
                matches = self._search.files(_plain_path(str(pattern)))
                found.update(path for path in matches if path.lower().endswith(suffix))
        return sorted(found)

    def stage(self, handle: str) -> Scene:
        attributes = self._attributes("stages", handle)
        mesh = self._named_file(handle, attributes.get("semantic_asset"))
        descriptor = self._named_file(handle, attributes.get("semantic_descriptor_filename"))
        names = None if mesh is None or descriptor is None else SemanticFiles(mesh, descriptor)
        scene = self._asset(handle, attributes, semantics=names is None)
        asset = self._named_file(handle, attributes.get("render_asset")) or handle
        scene = replace(scene, metadata={**scene.metadata, "stage": asset})  # annotations may lie next to this file
        if names is not None:
            rotation, factors = semantic_frame(attributes)
            scene = annotate(scene, self._files, names, lambda vertices: vertices @ rotation.T * factors)
            for sentence in self._files.python_warnings:
                warnings.warn(f"scene dataset '{self._files.path}': {sentence}", stacklevel=2)
            self._files.python_warnings.clear()
        if numbers(attributes, "origin", (0.0, 0.0, 0.0), LARGEST).any():
            self._left_out(f"the origin of stage '{handle}': move its asset instead")
        navmesh = self._named_file(handle, attributes.get("nav_asset"))
        return scene if navmesh is None else replace(scene, navmesh=self._navmesh(navmesh))

    def _named_file(self, handle: str, value: object) -> str | None:
        """Return the path of a file that attributes name; None if they name none.

        Where a pattern for all stages names it, a stage may lack the file.
        """
        if not value:
            return None
        name = str(value).replace(_OWN_NAME, scene_name(handle).split(".")[0])
        path = _path_beside(handle, name)
        if _OWN_NAME in str(value) and not self._files.path_of(path).is_file():
            self.digests[path] = ""
            return None
        return path

    def scene_instance(self, handle: str) -> Scene:
        """Load a stage with its objects; ValueError names the row of an object, or the file."""
        instance = {**self._defaults("scene_instances"), **self._json(handle)}
        rows = sequence(instance.get("object_instances", []), "object_instances")
        if len(rows) > MAX_PARTS:
            raise ValueError(f"it has {len(rows):,} objects, the limit is {MAX_PARTS:,}: place fewer")
        stage_instance = mapping(instance["stage_instance"], "stage_instance")
        if {"translation", "rotation"} & set(stage_instance):
            self._left_out("the translation and rotation of its stage, which stays where its file has it")
        stage = self.stage(self._template("stages", stage_instance["template_name"]))
        factors = _scale_of(stage_instance)
        if (factors != 1).any():  # a navmesh that came with the stage does not fit it any more
            if not (factors > 0).all():
                raise ValueError("the scale of its stage is not positive: mirror the asset itself")
            stage = replace(stage, vertices=(stage.vertices * factors).astype(np.float32), navmesh=None)
        if instance.get("articulated_object_instances"):
            self._left_out("its articulated objects: URDF is not read")
        origin = str(instance.get("translation_origin", "COM"))
        categories = ObjectCategories(self._files, self._config, instance.get("semantic_scene_instance"))
        scene = stage  # the stage's own navmesh ignores the objects
        navmesh = None if rows else stage.navmesh
        if rows:
            templates: dict[str, _Template] = {}
            placed = [Placed(stage, np.eye(4))]
            for index, row in enumerate(rows):
                try:
                    placed.append(self._placed(row, origin, categories, templates))
                except SceneError:
                    raise
                except ValueError as error:
                    raise ValueError(f"object_instances[{index}]: {error}") from error
            scene = replace(compose(handle, placed), metadata=stage.metadata)
        if instance.get("navmesh_instance"):
            paths = mapping(self._config.get("navmesh_instances", {}), "navmesh_instances")
            navmesh = self._navmesh(str(paths[instance["navmesh_instance"]]))
        return replace(scene, navmesh=navmesh)

    def _placed(
        self, row: Mapping[str, Any], origin: str, categories: ObjectCategories, templates: dict[str, _Template]
    ) -> Placed:
        """Load an object instance; ``templates`` caches the assets that were loaded."""
        handle = self._template("objects", row["template_name"])
        if handle not in templates:
            attributes = self._attributes("objects", handle)
            asset = self._asset(handle, attributes)
            (rotation, factors) = asset_frame(attributes)
            middle = asset.bounds.astype(np.float64).mean(axis=0)
            mass = (
                rotation @ numbers(attributes, "COM", (0.0, 0.0, 0.0), LARGEST) * factors
                if "COM" in attributes
                else middle
            )
            name = scene_name(handle)
            one = SceneObject.named(name, categories.of(name, attributes))
            templates[handle] = _Template(asset, mass, replace(one, solid=_is_collidable(attributes)))
        template = templates[handle]
        matrix = np.eye(4)
        matrix[:3, :3] = rotation_of(row) * _scale_of(row)
        matrix[:3, 3] = numbers(row, "translation", (0.0, 0.0, 0.0), LARGEST)
        if str(row.get("translation_origin", origin)).lower() != "asset_local":
            matrix[:3, 3] -= matrix[:3, :3] @ template.mass
        solid = template.whole.solid and _is_collidable(row)
        return Placed(template.asset, matrix, replace(template.whole, solid=solid))

    def _asset(self, handle: str, attributes: Mapping[str, Any], semantics: bool = False) -> Scene:
        """Load the asset of a stage or object, in metres with y up, optionally with the annotations next to it."""
        path = self._named_file(handle, attributes.get("render_asset")) or handle
        with naming_part(handle, None):
            rotation, factors = asset_frame(attributes)
        # The loader applies up and scale if it can, since it compares the asset's navmesh with the result.
        up = "z" if np.allclose(rotation, Z_UP) else "y"
        scale = float(factors[0]) if (factors == factors[0]).all() else 1.0
        scene = load_scene(
            self._files.path_of(path), up=up, scale=scale, semantics=semantics, texture_size=self.textures.size
        )
        folder = PurePosixPath(path).parent
        made_of = mapping(scene.metadata["files"], "files")
        self.digests.update({(folder / name).as_posix(): digest for name, digest in made_of.items()})
        for texture in scene.textures:
            self.textures.add(texture)
        remaining = rotation @ (Z_UP if up == "z" else np.eye(3)).T
        vertices = scene.vertices + np.asarray(scene.metadata["origin"])
        vertices = (vertices @ remaining.T) * (factors / scale)
        kept = {key: scene.metadata[key] for key in ("semantics",) if key in scene.metadata}
        stand_ins = (_STAND_IN,) * len(scene.textures)  # of the textures that ``textures`` holds, in the same order
        return replace(scene, vertices=vertices.astype(np.float32), textures=stand_ins, metadata=kept)

    def _own(self, kind: str) -> dict[str, Mapping[str, Any]]:
        if kind not in self._own_templates:
            section = mapping(self._config.get(kind, {}), kind)
            if kind == "scene_instances" and section.get("configs"):
                self._left_out(f"the configs of its {kind}: write them as files")
            rows = sequence(section.get("configs", []), "configs") if kind != "scene_instances" else []
            found = {}
            for row in (mapping(row, "a config") for row in rows):
                name = _without_ending(_plain_path(str(row.get("template_handle") or row["original_file"])))
                found[name + _ENDINGS[kind]] = row
            self._own_templates[kind] = found
        return self._own_templates[kind]

    def _attributes(self, kind: str, handle: str) -> dict[str, Any]:
        """Return the attributes of a stage or an object, merged over the dataset's defaults.

        The files that a template in the dataset's file names are relative to the dataset's folder.
        """
        if handle not in self._own(kind):
            return self._file_attributes(kind, handle)
        template = self._own(kind)[handle]
        folder = posixpath.dirname(handle) or "."

        def beside(attributes: Mapping[str, Any], origin: str) -> dict[str, Any]:
            """Return attributes of ``origin`` whose files are relative to ``folder``."""
            named = {
                key: str(attributes[key]).replace(_OWN_NAME, scene_name(origin)) for key in _FILES & set(attributes)
            }
            return {
                **attributes,
                **{key: posixpath.relpath(_path_beside(origin, at), folder) for key, at in named.items()},
            }

        own = beside(mapping(template.get("attributes", {}), "attributes"), scene_name(handle))
        if "original_file" not in template:
            return {**self._defaults(kind), **own}
        original = _plain_path(str(template["original_file"]))
        asset = {} if original.endswith(".json") else {"render_asset": posixpath.basename(original)}
        return {**beside({**asset, **self._file_attributes(kind, original)}, original), **own}

    def _file_attributes(self, kind: str, handle: str) -> dict[str, Any]:
        """Return the attributes in a configuration file, or in that of an asset, merged over the dataset's defaults."""
        path = handle
        if not handle.endswith(_ENDINGS[kind]):
            path = str(PurePosixPath(handle).with_name(scene_name(handle) + _ENDINGS[kind]))
            if not (self._folder / path).is_file():
                self.digests[path] = ""
                return self._defaults(kind)
        return {**self._defaults(kind), **self._json(path)}

    def _defaults(self, kind: str) -> dict[str, Any]:
        section = mapping(self._config.get(kind, {}), kind)
        return dict(mapping(section.get("default_attributes", {}), "default_attributes"))

    def _template(self, kind: str, name: object) -> str:
        """Return the handle of a ``template_name``, cached, since many rows have the same."""
        key = kind, str(name)
        if key not in self._templates:
            if kind not in self._handles:
                self._handles[kind] = self.listed(kind)
            self._templates[key] = _template_of(self._handles[kind], kind, name)
        return self._templates[key]

    def _navmesh(self, path: str) -> NavMesh:
        self._files.beside(path)  # records its digest
        return NavMesh.load(self._files.path_of(path))

    def _json(self, path: str) -> dict[str, Any]:
        with naming_part(path, None):
            return parse_json(self._files.beside(path, max_bytes=MAX_JSON_BYTES))

    def _left_out(self, what: str) -> None:
        sentence = f"Left out: {what}"
        if sentence not in self.warnings:
            self.warnings.append(sentence)
            warnings.warn(f"scene dataset '{self._files.path}': {sentence}", stacklevel=2)


def _scale_of(instance: Mapping[str, Any]) -> np.ndarray:
    """Return the factors [3] by which an instance scales its template."""
    factors = numbers(instance, "non_uniform_scale", (1.0, 1.0, 1.0), LARGEST)
    return factors * numbers(instance, "uniform_scale", (1.0,), LARGEST)


def _is_collidable(attributes: Mapping[str, Any]) -> bool:
    return attributes.get("is_collidable", True) is not False


def _template_of(handles: list[str], kind: str, name: object) -> str:
    """Return the one configuration of a ``template_name``, else the one asset; ValueError for none or several."""
    requested = str(name).replace("\\", "/")
    requested = str(PurePosixPath(requested).with_name(scene_name(requested))) if requested else "?"
    found = [handle for handle in handles if f"/{_without_ending(handle)}".endswith(f"/{requested}")]
    found = [handle for handle in found if handle.endswith(_ENDINGS[kind])] or found
    if len(found) != 1:
        several = f"{len(found)} {kind} ({', '.join(found[:3])})" if found else f"none of its {len(handles)} {kind}"
        raise ValueError(f"template_name {reprlib.repr(name)} matches {several}: fix it or the paths of the dataset")
    return found[0]


def _without_ending(handle: str) -> str:
    return str(PurePosixPath(handle).with_name(scene_name(handle)))


def _path_beside(handle: str, path: object) -> str:
    """Convert a path relative to a file's own folder to one relative to the dataset's folder."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(handle), str(path).replace("\\", "/")))


def _plain_path(path: str) -> str:
    """Return a normalised path or pattern inside the dataset's folder; ValueError if it leads out of it."""
    normal = posixpath.normpath(path.replace("\\", "/"))
    if normal.startswith(("/", "..")) or ":" in normal or "\0" in normal:
        raise ValueError(f"it refers to {reprlib.repr(path)}, which is not inside its folder: put the files there")
    return normal
