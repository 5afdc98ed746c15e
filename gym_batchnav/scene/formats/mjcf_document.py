"""MuJoCo models as data: what they show, without physics and paths, and the bytes of the files that they refer to.

A model comes from strangers and goes to MuJoCo's compiler, which reads files by itself. So only elements and attributes
that decide what is seen and where are kept, and every file is read here, within the scene's folder, and gets a
name of our own under which the compiler finds it in memory.
"""

from __future__ import annotations

import posixpath
import struct
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from xml.etree.ElementTree import Element, SubElement, tostring

from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.mjcf_xml import read_xml
from gym_batchnav.scene.images import DamagedImageError, open_image

MAX_PLACED = 10_000  # bodies and geoms, counting replicas and attached models; compiling takes time by the square
MAX_MODELS = 200  # that can be attached
MAX_ATTACHED_BYTES = 2**30  # of files of attached models, counted once per attachment
MAX_ATTACH_DEPTH = 8
MAX_HFIELD = 2**22  # cells
MAX_GENERATED_PIXELS = 2**26  # of procedural textures, all together
MAX_MESH_PARAMETER = 100.0  # of meshes that the compiler generates; most are resolutions
MAX_GENERATED_MESHES = 100
FILE_TEXTURE = "file texture "  # names of textures with files, followed by their numbers
SIDES = ("right", "left", "up", "down", "front", "back")  # of a cube, in the order of MuJoCo's data

_POSE = ("pos", "quat", "axisangle", "xyaxes", "zaxis", "euler")
_TREE = ("body", "geom", "frame", "replicate", "attach")
_CHILDREN = {
    "default": ("default", "geom", "mesh", "material", "texture"),
    "asset": ("mesh", "hfield", "texture", "material", "model"),
    "material": ("layer",),
    **dict.fromkeys(("worldbody", "body", "frame", "replicate"), _TREE),
}
_ATTRIBUTES = {
    "default": ("class",),
    "body": ("name", "childclass", *_POSE),
    "worldbody": ("name", "childclass"),
    "frame": ("name", "childclass", *_POSE),
    "replicate": ("count", "sep", "offset", "euler", "childclass"),
    "attach": ("model", "body", "prefix"),
    "geom": (
        *("name", "class", "type", "contype", "conaffinity", "group", "size", "material", "rgba", "fromto", *_POSE),
        *("hfield", "mesh", "fitscale"),
    ),
    "mesh": (
        *("name", "class", "vertex", "normal", "texcoord", "face", "refpos", "refquat", "scale", "smoothnormal"),
        *("builtin", "params", "material", "inertia"),
    ),
    "hfield": ("name", "nrow", "ncol", "elevation", "size"),
    "texture": (
        *("name", "class", "type", "colorspace", "builtin", "rgb1", "rgb2", "mark", "markrgb", "random"),
        *("width", "height"),
    ),
    "material": ("name", "class", "texture", "texrepeat", "texuniform", "rgba"),
    "layer": ("texture", "role"),
    "model": ("name",),
    "compiler": ("angle", "eulerseq", "coordinate", "fitaabb"),
}
_MESH_TYPES = {"model/obj": ".obj", "model/stl": ".stl", "model/vnd.mujoco.msh": ".msh"}
_UNNAMED = "MuJoCo Model"  # the name that MuJoCo gives to a model without one
_LEFT_OUT = ("skin", "flex", "flexcomp", "composite", "plugin")


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


@dataclass(slots=True)
class _Size:
    """What one use of a model takes."""

    placed: int = 0
    num_bytes: int = 0


def read_document(files: SceneFiles) -> Document:
    """Read a scene's MuJoCo XML and all files that it refers to, except those of textures.

    Raises:
        ValueError: If a file is not as it should be, lies outside the scene's folder, or is too large.
    """
    reader = _Reader(files)
    reader.document.xml, _, _ = reader.model("", ())
    return reader.document


class _Reader:
    """The reader of one scene, with what its models share."""

    def __init__(self, files: SceneFiles) -> None:
        self.document = Document()
        self._files = files
        self._names: dict[tuple[str, str], str] = {}  # names in memory by path and ending
        self._models: dict[str, tuple[str, _Size, str]] = {}
        self._num_pixels = 0
        self._num_generated = 0

    def model(self, path: str, parents: tuple[str, ...]) -> tuple[bytes, _Size, str]:
        """Return a model's cleaned XML, the size of one use, and its name; ``parents`` are those that attach it."""
        if path in parents or len(parents) > MAX_ATTACH_DEPTH:
            raise ValueError(f"'{path[:200]}' attaches itself, or models nest too deeply: attach fewer of them")
        one = _Model(self, read_xml(self._files, path), PurePosixPath(path).parent, (*parents, path))
        return one.cleaned()

    def attached(self, path: str, parents: tuple[str, ...]) -> tuple[str, _Size, str]:
        """Return the name in memory of a model to attach, what one use of it takes, and its own name."""
        if path not in self._models:
            xml, size, own_name = self.model(path, parents)
            if len(self._models) == MAX_MODELS:
                raise ValueError(f"it attaches more than {MAX_MODELS} models: join some of them")
            name = f"model{len(self._models)}.xml"
            self.document.assets[name] = xml
            self._models[path] = name, size, own_name
        return self._models[path]

    def file(self, path: str, ending: str) -> tuple[str, bytes]:
        """Return the name in memory and the bytes of a mesh or a height field."""
        known = self._names.get((path, ending))
        if known is not None:
            return known, self.document.assets[known]
        try:
            data = self._files.beside(path, any_case=True)
        except FileNotFoundError:
            raise ValueError(f"it refers to '{path[:200]}', which does not exist: put the file there") from None
        name = self._names.setdefault((path, ending), f"file{len(self._names)}{ending}")
        self.document.assets[name] = data
        return name, data

    def generate_pixels(self, count: int) -> None:
        """Count pixels that the compiler is going to make."""
        self._num_pixels += count
        if self._num_pixels > MAX_GENERATED_PIXELS:
            raise ValueError(
                f"its procedural textures have more than {MAX_GENERATED_PIXELS:,} pixels: reduce their width and height"
            )

    def generate_mesh(self) -> None:
        """Count a mesh that the compiler is going to make."""
        self._num_generated += 1
        if self._num_generated > MAX_GENERATED_MESHES:
            raise ValueError(f"it has more than {MAX_GENERATED_MESHES} builtin meshes: save them as OBJ")


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
        self._sizes: dict[str, _Size] = {}  # of models to attach, by name
        self._bodies: dict[str, _Size] = {}  # of bodies of this model, which it may attach to itself
        self._fields: set[str] = set()  # meshes that plugins make of signed distance fields
        self._num_bytes = 0

    def cleaned(self) -> tuple[bytes, _Size, str]:
        """Return the XML, what one use of the model takes, and the model's name."""
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
        size = self._size(cleaned)
        size.num_bytes += self._num_bytes
        if size.placed > MAX_PLACED:
            raise ValueError(
                f"it places {size.placed:,} bodies and geoms, the limit is {MAX_PLACED:,}: split the scene"
            )
        if size.num_bytes - self._num_bytes > MAX_ATTACHED_BYTES:
            raise ValueError(f"it attaches models of more than {MAX_ATTACHED_BYTES:,} bytes: attach fewer of them")
        return tostring(cleaned, "utf-8"), size, name

    def _copy(self, element: Element, parent: Element) -> None:
        if self._is_field(element):
            return
        kept = {name: element.get(name, "") for name in _ATTRIBUTES.get(element.tag, ()) if name in element.attrib}
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
        if "builtin" in element.attrib:
            if any(abs(value) > MAX_MESH_PARAMETER for value in _numbers(element, "params")):
                raise ValueError(f"a builtin mesh has a parameter above {MAX_MESH_PARAMETER:g}: save it as OBJ")
            self._reader.generate_mesh()
        if "file" not in element.attrib:
            return
        path = self._path(element.get("file", ""), self._mesh_folder)
        ending = _MESH_TYPES.get(element.get("content_type", ""), PurePosixPath(path).suffix.lower())
        if ending not in _MESH_TYPES.values():
            raise ValueError(f"mesh '{path[:200]}' ends in {ending!r}: save it as OBJ or STL, which MuJoCo reads")
        name, data = self._reader.file(path, ending)
        if ending == ".msh":
            _check_msh(data, path)
        self._num_bytes += len(data)
        copy.set("name", element.get("name", PurePosixPath(path).stem))
        copy.set("file", name)

    def _hfield(self, element: Element, copy: Element) -> None:
        if "file" not in element.attrib:
            cells = _whole(element, "nrow") * _whole(element, "ncol")
            name = element.get("name", "")
        else:
            path = self._path(element.get("file", ""), self._mesh_folder)
            is_image = path.lower().endswith(".png") or element.get("content_type") == "image/png"
            file, data = self._reader.file(path, ".png" if is_image else ".hfield")
            cells = _image_pixels(data, path) if is_image else _hfield_cells(data, path)
            self._num_bytes += len(data)
            name = element.get("name", PurePosixPath(path).stem)
            copy.set("name", name)
            copy.set("file", file)
        if cells > MAX_HFIELD:
            raise ValueError(f"height field '{name[:200]}' has {cells:,} cells, the limit is {MAX_HFIELD:,}: reduce it")

    def _name_texture(self, element: Element) -> None:
        """Give a texture with files the name under which its pixels are found after compilation."""
        paths = _texture_files(element)
        if not paths:
            return
        name = element.get("name", PurePosixPath(paths[0] or "").stem)
        folder = self._texture_folder
        rows, columns = (*map(int, _numbers(element, "gridsize", (1.0, 1.0))), 1, 1)[:2]
        if not (1 <= rows and 1 <= columns and rows * columns <= 12):
            raise ValueError(
                f"texture '{name[:200]}' has a gridsize of {rows} x {columns}: at most 12 squares are used"
            )
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
            return
        width = _whole(element, "width")
        height = _whole(element, "height")
        self._reader.generate_pixels(width * height if element.get("type") == "2d" else 6 * width * max(width, height))

    def _attachable(self, element: Element, copy: Element) -> None:
        path = self._path(element.get("file", ""), "")
        file, size, own_name = self._reader.attached(path, self._parents)
        copy.set("file", file)
        self._sizes[element.get("name", own_name)] = size

    def _size(self, element: Element) -> _Size:
        """Count what an element places, with replicas and attached models."""
        total = _Size(int(element.tag in ("body", "geom")))
        if element.tag == "attach":
            known = self._sizes if "model" in element.attrib else self._bodies
            size = known.get(element.get("model", element.get("body", "")))
            if size is None:
                raise ValueError(f"it attaches {dict(element.attrib)}, which is not defined before: define it")
            return _Size(size.placed, size.num_bytes)
        for child in element:
            size = self._size(child)
            total.placed += size.placed
            total.num_bytes += size.num_bytes
        if element.tag == "replicate":
            count = _whole(element, "count")
            total.placed *= count
            total.num_bytes *= count
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
    """Return the numbers of an attribute."""
    if name not in element.attrib:
        return default
    try:
        values = tuple(float(word) for word in element.attrib[name].split())
    except ValueError:
        values = (float("nan"),)
    if not all(-1e9 < value < 1e9 for value in values):
        raise ValueError(f"<{element.tag} {name}={element.attrib[name][:60]!r}> is not made of usable numbers")
    return values


def _whole(element: Element, name: str) -> int:
    """Return an attribute that is one whole number, 0 if it is missing."""
    values = _numbers(element, name, (0.0,))
    if len(values) != 1 or values[0] < 0:
        raise ValueError(f"<{element.tag} {name}={element.attrib[name][:60]!r}> is not one positive number")
    return int(values[0])


def _image_pixels(data: bytes, label: str) -> int:
    try:
        image = open_image(data, label)
    except DamagedImageError as error:
        raise ValueError(str(error)) from error
    return image.width * image.height


def _hfield_cells(data: bytes, label: str) -> int:
    """Return the number of cells of a height field in MuJoCo's binary format."""
    rows, columns = struct.unpack_from("<2i", data) if len(data) >= 8 else (0, 0)
    if rows < 1 or columns < 1 or len(data) != 4 * (2 + rows * columns):
        raise ValueError(f"height field '{label[:200]}' does not have the size that it declares: re-export it")
    return rows * columns


def _check_msh(data: bytes, label: str) -> None:
    """Raise ValueError if a mesh in MuJoCo's binary format does not have the size that its header declares."""
    counts = struct.unpack_from("<4i", data) if len(data) >= 16 else (-1,)
    if min(counts) < 0 or len(data) != 16 + 12 * (counts[0] + counts[1] + counts[3]) + 8 * counts[2]:
        raise ValueError(f"mesh '{label[:200]}' does not have the size that it declares: re-export it")
