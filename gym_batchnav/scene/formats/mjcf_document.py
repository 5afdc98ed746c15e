"""MuJoCo models as data: what they show, without physics and paths, and the bytes of the files that they refer to.

A model comes from strangers and goes to MuJoCo's compiler, which reads files by itself. So only elements and attributes
that decide what is seen and where are kept, and every file is read here, within the scene's folder, and gets a
new name under which the compiler finds it in memory.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.parsers import expat

from gym_batchnav.scene.files import SceneFiles

MAX_PLACED = 10_000  # bodies and geoms, counting replicas and attached models; compiling takes time by the square
MAX_MODELS = 200  # that can be attached
MAX_PARSED = 2_000_000  # elements that the compiler parses; it parses a model again for each that refers to it
_MODEL_ELEMENTS = 100  # elements whose parsing takes as long as what each model takes in addition
MAX_ATTACH_DEPTH = 8
MAX_MESH_PARAMETER = 100.0  # of meshes that the compiler generates; most are resolutions
FILE_TEXTURE = "file texture "  # names of textures with files, followed by their numbers
SIDES = ("right", "left", "up", "down", "front", "back")  # of a cube, in the order of MuJoCo's data

_TREE = ("body", "geom", "frame", "replicate", "attach")
_CHILDREN = {
    "default": ("default", "geom", "mesh", "material", "texture"),
    "asset": ("mesh", "hfield", "texture", "material", "model"),
    "material": ("layer",),
    **dict.fromkeys(("worldbody", "body", "frame", "replicate"), _TREE),
}
_POSE = " pos quat axisangle xyaxes zaxis euler"
_ATTRIBUTES = {
    "default": "class",
    "body": "name childclass" + _POSE,
    "worldbody": "name childclass",
    "frame": "name childclass" + _POSE,
    "replicate": "count sep offset euler childclass",
    "attach": "model body prefix",
    "geom": "name class type contype conaffinity group size material rgba fromto hfield mesh fitscale" + _POSE,
    "mesh": "name class vertex normal texcoord face refpos refquat scale smoothnormal builtin params material inertia",
    "hfield": "name nrow ncol elevation size",
    "texture": "name class type colorspace builtin rgb1 rgb2 mark markrgb random width height",
    "material": "name class texture texrepeat texuniform rgba",
    "layer": "texture role",
    "model": "name",
    "compiler": "angle eulerseq coordinate fitaabb",
}
_MESH_TYPES = {"model/obj": ".obj", "model/stl": ".stl", "model/vnd.mujoco.msh": ".msh"}
_UNNAMED = "MuJoCo Model"  # the name that MuJoCo gives to a model without one
_LEFT_OUT = ("skin", "flex", "flexcomp", "composite", "plugin")
MJCF_SUFFIX = ".xml"
MJCF_PARTS = (".obj", ".stl")  # endings of files that are parts of a model, although they could be scenes
MAX_XML_BYTES = 2**25  # of one file
MAX_ELEMENTS = 500_000  # of one file
MAX_DEPTH = 100  # of nested elements; MuJoCo's compiler calls itself once per level
MAX_INCLUDED_BYTES = 2**26  # of all files that one model includes
_HEAD_BYTES = 2**16  # in which the first element begins; licences may precede it


@dataclass(frozen=True, slots=True)
class FileTexture:
    """A texture that comes from files: one for the whole, or one for each side of a cube."""

    paths: tuple[str | None, ...]  # relative to the scene's folder; one, or as many as SIDES
    grid: tuple[int, int]  # rows and columns of squares in the one file
    layout: str  # the side of each square by its first letter in upper case, or a dot
    flips: tuple[bool, bool]  # horizontally, vertically
    has_alpha: bool
    blank: tuple[float, float, float]  # colour of sides without a picture


@dataclass(slots=True)
class Document:
    """A model for MuJoCo's compiler, which shows what the scene's file shows and refers to nothing but ``assets``."""

    xml: bytes = b""
    assets: dict[str, bytes] = field(default_factory=dict)  # files by the names that the XML uses
    textures: list[FileTexture] = field(default_factory=list)  # see FILE_TEXTURE
    left_out: dict[str, int] = field(default_factory=dict)  # numbers of elements by tag


def read_document(files: SceneFiles) -> Document:
    """Read a scene's MuJoCo XML and all files that it refers to, except those of textures.

    Raises:
        ValueError: If a file is not as it should be, lies outside the scene's folder, or is too large.
    """
    reader = _Reader(files)
    reader.document.xml = reader.model("", ()).xml
    return reader.document


class _Cleaned(NamedTuple):
    """A model without what is not shown."""

    xml: bytes
    name: str
    num_placed: int  # bodies and geoms, with replicas and attached models
    num_parsed: int  # elements, counting a model for each time that the compiler parses it


class _Reader:
    """The reader of one scene, with what its models share."""

    def __init__(self, files: SceneFiles) -> None:
        self.document = Document()
        self._files = files
        self._names: dict[tuple[str, str], str] = {}  # names in memory by path and ending
        self._models: dict[str, tuple[str, _Cleaned]] = {}

    def model(self, path: str, parents: tuple[str, ...]) -> _Cleaned:
        """Read and clean a model that the models ``parents`` attach; ValueError if it is one of them."""
        if path in parents or len(parents) > MAX_ATTACH_DEPTH:
            raise ValueError(f"'{path[:200]}' attaches itself, or models nest too deeply: attach fewer of them")
        one = _Model(self, read_xml(self._files, path), PurePosixPath(path).parent, (*parents, path))
        return one.cleaned()

    def attached(self, path: str, parents: tuple[str, ...]) -> tuple[str, _Cleaned]:
        """Return a model to attach and its name in memory; ValueError as ``model``, or if there are too many."""
        if path not in self._models:
            cleaned = self.model(path, parents)
            if len(self._models) == MAX_MODELS:
                raise ValueError(f"it attaches more than {MAX_MODELS} models: join some of them")
            name = f"model{len(self._models)}.xml"
            self.document.assets[name] = cleaned.xml
            self._models[path] = name, cleaned
        return self._models[path]

    def file(self, path: str, ending: str) -> str:
        """Return the name in memory of a mesh or a height field; ValueError if its file does not exist."""
        if (path, ending) not in self._names:
            data = _referred(self._files, path, any_case=True)
            self._names[path, ending] = f"file{len(self._names)}{ending}"
            self.document.assets[self._names[path, ending]] = data
        return self._names[path, ending]


class _Model:
    """One model: its elements are copied, checked and stripped."""

    def __init__(self, reader: _Reader, root: Element, folder: PurePosixPath, parents: tuple[str, ...]) -> None:
        self._reader = reader
        self._root = root
        self._folder = folder
        self._parents = parents
        stated: dict[str, str] = {}
        for compiler in root.iter("compiler"):
            stated |= compiler.attrib
        self._mesh_folder = stated.get("meshdir", stated.get("assetdir", ""))
        self._texture_folder = stated.get("texturedir", stated.get("assetdir", ""))
        self._strips_paths = stated.get("strippath") == "true"
        self._texture_names: dict[str, str] = {}
        self._placed: dict[str, int] = {}  # bodies and geoms of models to attach, by name
        self._bodies: dict[str, int] = {}  # those of bodies of this model, which it may attach to itself
        self._num_parsed = 0  # see _Cleaned
        self._fields: set[str] = set()  # meshes that plugins make of signed distance fields

    def cleaned(self) -> _Cleaned:
        """Return the cleaned model; ValueError if it cannot be compiled in time."""
        name = self._root.get("model", _UNNAMED)
        cleaned = Element("mujoco", {"model": name})
        sections = [child for child in self._root if child.tag in ("compiler", "default", "asset", "worldbody")]
        for element in self._root.iter():
            if element.tag in _LEFT_OUT:
                counts = self._reader.document.left_out
                counts[element.tag] = counts.get(element.tag, 0) + 1
        for texture in (one for section in sections if section.tag == "asset" for one in section.iter("texture")):
            self._name_texture(texture)
        for section in sections:
            self._copy(section, cleaned)
        placed = self._count(cleaned)
        self._num_parsed += _MODEL_ELEMENTS + sum(1 for _ in cleaned.iter())
        if placed > MAX_PLACED:
            raise ValueError(
                f"it places {placed:,} bodies and geoms, but compiling takes too long for more than {MAX_PLACED:,}: "
                "join the geoms of each body into a mesh, remove those that are not seen, or export the scene as GLB"
            )
        if self._num_parsed > MAX_PARSED:
            raise ValueError(
                f"compiling it would parse {self._num_parsed:,} elements, the limit is {MAX_PARSED:,}, because models "
                "that attach models are parsed for each use: attach all models in the main file"
            )
        return _Cleaned(tostring(cleaned, "utf-8"), name, placed, self._num_parsed)

    def _copy(self, element: Element, parent: Element) -> None:
        if self._is_field(element):
            return
        names = _ATTRIBUTES.get(element.tag, "").split()
        kept = {name: element.get(name, "") for name in names if name in element.attrib}
        in_default = parent.tag == "default"
        copy = SubElement(parent, element.tag, kept)
        if element.tag in ("material", "layer") and "texture" in kept:
            copy.set("texture", self._texture_names.get(kept["texture"], kept["texture"]))
        elif element.tag == "texture":
            self._texture(element, copy, in_default)
        elif element.tag == "mesh" and not in_default:
            self._mesh(element, copy)
        elif element.tag == "hfield":
            self._hfield(element, copy)
        elif element.tag == "model":
            self._attachable(element, copy)
        for child in element:
            if child.tag in _CHILDREN.get(element.tag, ()):
                self._copy(child, copy)

    def _is_field(self, element: Element) -> bool:
        """Return whether an element is a signed distance field, which has no triangles, or a mesh made of one."""
        if element.tag == "geom":
            return element.get("type") == "sdf" or element.get("mesh") in self._fields
        has_data = {"file", "vertex", "builtin"} & set(element.attrib)
        if element.tag != "mesh" or has_data or element.find("plugin") is None:
            return False
        self._fields.add(element.get("name", ""))
        return True

    def _path(self, file: str, folder: str) -> str:
        """Return a file's path relative to the scene's folder, as the compiler would resolve it."""
        file = file.replace("\\", "/")
        folder = folder.replace("\\", "/")
        if self._strips_paths:
            file = file.rpartition("/")[2]
        if file.startswith("/"):
            return file  # the check of paths refuses it
        return posixpath.normpath(self._folder / folder / file)

    def _mesh(self, element: Element, copy: Element) -> None:
        if any(abs(value) > MAX_MESH_PARAMETER for value in _numbers(element, "params")):
            raise ValueError(f"a builtin mesh has a parameter above {MAX_MESH_PARAMETER:g}: save it as OBJ")
        if "file" not in element.attrib:
            return
        path = self._path(element.get("file", ""), self._mesh_folder)
        ending = _MESH_TYPES.get(element.get("content_type", ""), PurePosixPath(path).suffix.lower())
        if ending not in _MESH_TYPES.values():
            raise ValueError(f"mesh '{path[:200]}' ends in {ending!r}: save it as OBJ or STL, which MuJoCo reads")
        copy.set("name", element.get("name", PurePosixPath(path).stem))
        copy.set("file", self._reader.file(path, ending))

    def _hfield(self, element: Element, copy: Element) -> None:
        if "file" in element.attrib:
            path = self._path(element.get("file", ""), self._mesh_folder)
            is_image = path.lower().endswith(".png") or element.get("content_type") == "image/png"
            copy.set("name", element.get("name", PurePosixPath(path).stem))
            copy.set("file", self._reader.file(path, ".png" if is_image else ".hfield"))

    def _name_texture(self, element: Element) -> None:
        """Give a texture with files the name under which its pixels are found after compilation."""
        paths = _texture_files(element)
        if not paths:
            return
        name = element.get("name", PurePosixPath(paths[0] or "").stem)
        folder = self._texture_folder
        rows, columns = (*map(int, _numbers(element, "gridsize", (1.0, 1.0))), 1, 1)[:2]
        if not (1 <= rows and 1 <= columns and rows * columns <= 12):
            raise ValueError(f"texture '{name[:200]}' has a gridsize of {rows} x {columns}: reduce it to 12 squares")
        red, green, blue = (*_numbers(element, "rgb1", (0.8, 0.8, 0.8)), 0.8, 0.8, 0.8)[:3]
        textures = self._reader.document.textures
        self._texture_names[name] = f"{FILE_TEXTURE}{len(textures)}"
        textures.append(
            FileTexture(
                paths=tuple(None if path is None else self._path(path, folder) for path in paths),
                grid=(rows, columns),
                layout=element.get("gridlayout", "." * rows * columns),
                flips=(element.get("hflip") == "true", element.get("vflip") == "true"),
                has_alpha=element.get("nchannel", "3").strip() == "4",
                blank=(red, green, blue),
            )
        )

    def _texture(self, element: Element, copy: Element, in_default: bool) -> None:
        if in_default:
            for name in set(copy.attrib) - {"type", "colorspace"}:
                del copy.attrib[name]
            return
        paths = _texture_files(element)
        if paths:  # a placeholder, since its pixels are not for the compiler
            name = element.get("name", PurePosixPath(paths[0] or "").stem)
            placeholder = {"name": self._texture_names[name], "builtin": "flat", "width": "1", "height": "1"}
            copy.attrib = {key: copy.attrib[key] for key in ("type", "class") if key in copy.attrib} | placeholder

    def _attachable(self, element: Element, copy: Element) -> None:
        path = self._path(element.get("file", ""), "")
        file, model = self._reader.attached(path, self._parents)
        copy.set("file", file)
        self._placed[element.get("name", model.name)] = model.num_placed
        self._num_parsed += model.num_parsed

    def _count(self, element: Element) -> int:
        """Count the bodies and geoms that an element places, with replicas and attached models."""
        if element.tag == "attach":
            known = self._placed if "model" in element.attrib else self._bodies
            placed = known.get(element.get("model", element.get("body", "")))
            if placed is None:
                raise ValueError(
                    f"its element attach {dict(element.attrib)} names nothing that is defined above it: define it "
                    "above, or correct the name"
                )
            return placed
        total = int(element.tag in ("body", "geom")) + sum(map(self._count, element))
        if element.tag == "replicate":
            total *= _whole(element, "count")
        if element.tag == "body" and "name" in element.attrib:
            self._bodies[element.attrib["name"]] = total
        return total


def _texture_files(element: Element) -> tuple[str | None, ...]:
    """Return the files that a texture refers to: none, one, or as many as ``SIDES``."""
    if element.get("builtin", "none") != "none":
        return ()
    if "file" in element.attrib:
        return (element.attrib["file"],)
    sides = tuple(element.get(f"file{side}") for side in SIDES)
    return sides if any(sides) else ()


def _numbers(element: Element, name: str, default: tuple[float, ...] = ()) -> tuple[float, ...]:
    if name not in element.attrib:
        return default
    try:
        values = tuple(float(word) for word in element.attrib[name].split())
    except ValueError:
        values = (float("nan"),)
    if not all(-1e9 < value < 1e9 for value in values):
        raise ValueError(f"<{element.tag} {name}={element.attrib[name][:60]!r}> must be numbers from -1e9 to 1e9")
    return values


def _whole(element: Element, name: str) -> int:
    """Return an attribute that is one whole number, 0 if it is missing."""
    values = _numbers(element, name, (0.0,))
    if len(values) != 1 or values[0] < 0:
        raise ValueError(f"<{element.tag} {name}={element.attrib[name][:60]!r}> must be one number of 0 or more")
    return int(values[0])


def is_mjcf(path: Path) -> bool:
    """Return whether a file begins like a model of MuJoCo; other programs use XML too."""
    with path.open("rb") as file:
        return re.search(rb"<mujoco[\s>/]", file.read(_HEAD_BYTES)) is not None


def parse_xml(data: bytes, label: str) -> ElementTree.Element:
    """Parse an XML file without a document type, which could declare entities.

    Args:
        data: The bytes of the file.
        label: Its name in messages.

    Raises:
        ValueError: If it is not XML, has a document type, or exceeds the limits above.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    opened = depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal opened, depth
        opened += 1
        depth += 1
        if opened > MAX_ELEMENTS:
            raise ValueError(f"'{label}' has more than {MAX_ELEMENTS:,} elements: split the scene")
        if depth > MAX_DEPTH:
            raise ValueError(f"'{label}' nests elements more than {MAX_DEPTH} deep: flatten its bodies")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: object) -> None:
        raise ValueError(f"'{label}' has a document type (<!DOCTYPE), which MuJoCo's format does not use: remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"'{label}' is not well-formed XML ({error}): re-export it") from error
    except (LookupError, UnicodeError) as error:  # of an encoding that Python does not know
        raise ValueError(f"'{label}' has an unknown encoding ({error}): save it as UTF-8") from error
    return builder.close()


def read_xml(files: SceneFiles, path: str) -> ElementTree.Element:
    """Read the ``mujoco`` element of a model; each ``include`` is replaced by the content of the file that it names.

    Args:
        files: The scene's files.
        path: The model's path relative to the scene's folder; "" for the scene's main file.

    Raises:
        ValueError: If a file is not a model, is missing, lies outside the scene's folder, or is included twice.
    """
    label = path or files.path.name
    root = parse_xml(_bytes(files, path), label)
    if root.tag == "robot":
        raise ValueError(f"'{label}' is a URDF file, which is not supported: convert it to MuJoCo's XML")
    if root.tag != "mujoco":
        raise ValueError(f"'{label}' begins with <{root.tag[:50]}>, not with <mujoco>: only MuJoCo's XML is supported")
    folder = path.rpartition("/")[0]
    _include(files, root, folder, {path}, [MAX_INCLUDED_BYTES], 0)
    return root


def _include(
    files: SceneFiles, parent: ElementTree.Element, folder: str, seen: set[str], left: list[int], depth: int
) -> None:
    """Replace the include elements below ``parent``; ``left`` holds the bytes that may still be included."""
    if depth > MAX_DEPTH:
        raise ValueError(f"its included files nest elements more than {MAX_DEPTH} deep: flatten its bodies")
    children: list[ElementTree.Element] = []
    waiting = list(reversed(parent))
    while waiting:
        child = waiting.pop()
        if child.tag != "include":
            children.append(child)
            continue
        name = child.get("file", "")
        path = f"{folder}/{name}" if folder else name
        if path in seen:
            raise ValueError(f"it includes '{path[:200]}' twice, which MuJoCo does not allow: remove one of the two")
        seen.add(path)
        data = _bytes(files, path)
        left[0] -= len(data)
        if left[0] < 0:
            raise ValueError(f"it includes more than {MAX_INCLUDED_BYTES:,} bytes of XML: split the scene")
        waiting += reversed(parse_xml(data, path))
    parent[:] = children
    for child in children:
        _include(files, child, folder, seen, left, depth + 1)


def _bytes(files: SceneFiles, path: str) -> bytes:
    return _referred(files, path, max_bytes=MAX_XML_BYTES) if path else files.main(MAX_XML_BYTES)


def _referred(files: SceneFiles, path: str, **options: Any) -> bytes:
    """Return the content of a file that a model names, see ``SceneFiles.beside``; ValueError if there is none."""
    try:
        return files.beside(path, **options)
    except FileNotFoundError:
        raise ValueError(f"it refers to '{path[:200]}', which does not exist: put the file there") from None
