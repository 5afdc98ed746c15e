"""glTF 2.0 documents: the container, the checked JSON, and typed views of their binary data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.scene.builder import MAX_PARTS, TOO_MANY_PARTS, ImageBudget
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.gltf_codecs import (
    BASISU,
    MESHOPT,
    MESHOPT_PACKAGE,
    data_uri,
    decode_meshopt,
    meshopt_size,
    split_container,
)
from gym_batchnav.scene.frame import rotation_matrix
from gym_batchnav.scene.images import can_decode_avif, open_image
from gym_batchnav.scene.json_values import MAX_GLTF_JSON_BYTES, integer, mapping, numbers, parse_json, sequence, short
from gym_batchnav.scene.scene import CLAMP, LINEAR, MIRROR, NEAREST, REPEAT
from gym_batchnav.scene.textures import AUTO, size_for
from gym_batchnav.system.storage import check_pulled

COMPONENTS: dict[int, type] = {
    5120: np.int8,
    5121: np.uint8,
    5122: np.int16,
    5123: np.uint16,
    5125: np.uint32,
    5126: np.float32,
}
FILTER = {9728: NEAREST, 9729: LINEAR}
WRAP = {10497: REPEAT, 33071: CLAMP, 33648: MIRROR}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
MAX_ELEMENTS = 150_000_000  # of an accessor, which takes no memory beyond the file's
MAX_ELEMENTS_READ = 250_000_000
MAX_ZEROS = 2**20  # elements of an accessor without data
# Limits for bufferViews that are decompressed: a constant allowance plus a rate per byte of the scene's files.
FREE_BYTES = 2**28
BYTES_PER_BYTE = 64
MAX_NODES = 200_000
MAX_DEPTH = 512

# Extensions that a file may require: they are supported, or affect neither the shape nor the colour of surfaces.
_READ = {
    "KHR_draco_mesh_compression",
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_mesh_primitive_restart",
    "KHR_mesh_quantization",
    "KHR_texture_basisu",
    "KHR_texture_transform",
    "EXT_mesh_gpu_instancing",
    "EXT_texture_avif",
    "EXT_texture_webp",
    *MESHOPT,
}
_WITHOUT_EFFECT = (  # beginnings of names
    *("ADOBE_materials_", "AGI_", "CESIUM_primitive_outline", "EXT_feature_metadata", "EXT_instance_features"),
    *("EXT_lights_", "EXT_materials_", "EXT_mesh_features", "EXT_mesh_manifold", "EXT_structural_metadata"),
    *("KHR_animation_", "KHR_audio_", "KHR_implicit_shapes", "KHR_interactivity", "KHR_lights_", "KHR_materials_"),
    *("KHR_node_", "KHR_physics_", "KHR_xmp", "MSFT_audio_", "MSFT_lod", "MSFT_packing_", "OMI_", "VRM"),
)
# Extensions of textures by preference, and whether their images can be decoded here.
_TEXTURES: dict[str, Callable[[], bool]] = {
    "KHR_texture_basisu": BASISU.is_found,
    "EXT_texture_webp": lambda: True,
    "EXT_texture_avif": can_decode_avif,
}
_REMEDIES = {"KHR_texture_ktx": "convert its textures to PNG or JPEG"}


class GltfDocument:
    """A glTF file whose parts are checked when they are accessed.

    Any error in the file raises ValueError (or OSError for a missing file of a buffer) with a sentence
    that lacks only the file's name.

    Args:
        files: The scene's files; the main file is a ``.glb`` or a ``.gltf``.

    Attributes:
        generator: The program that wrote the file, "" if it does not say.
        num_hidden: How many nodes ``placed_nodes`` has left out as hidden, without those below them.
    """

    def __init__(self, files: SceneFiles) -> None:
        self.num_hidden = 0
        self._files = files
        text, self._bin = split_container(files.main())
        if files.path.suffix.lower() == ".glb" and self._bin is None and not text.lstrip()[:1] == b"{":
            raise ValueError("it is not a GLB file: copy or download it again")
        self._json = parse_json(text, MAX_GLTF_JSON_BYTES)
        self._buffers: dict[float, memoryview] = {}
        self._unpacked: dict[float, memoryview] = {}  # bufferViews that were compressed
        self._num_elements = 0
        self._parent_of: dict[int, int] | None = None
        self._world: dict[object, np.ndarray] = {}  # matrices of nodes
        asset = mapping(self._json.get("asset", {}), "asset")
        self.generator = str(asset.get("generator", ""))
        version = asset.get("minVersion", asset.get("version"))
        if not str(version).startswith("2.") or (version != "2.0" and "minVersion" in asset):
            raise ValueError(f"it is glTF version {short(version)}: only 2.0 is supported, re-export it")
        for name in sequence(self._json.get("extensionsRequired", []), "extensionsRequired"):
            if name not in _READ and not str(name).startswith(_WITHOUT_EFFECT):
                remedy = _REMEDIES.get(str(name), "re-export it without that extension")
                raise ValueError(f"it requires the glTF extension {str(name)[:60]}, which is not supported: {remedy}")
        if self.count("nodes") > MAX_NODES:
            raise ValueError(f"it has {self.count('nodes'):,} nodes, the limit is {MAX_NODES:,}: join some")

    def count(self, kind: str) -> int:
        """Return the number of ``kind`` (``"nodes"``, ``"meshes"``, ...) in the document."""
        return len(sequence(self._json.get(kind, []), kind))

    def item(self, kind: str, index: object) -> Mapping[str, Any]:
        """Return entry ``index`` of the document's list ``kind``."""
        items = sequence(self._json.get(kind, []), kind)
        if isinstance(index, float) and index.is_integer():  # JSON has one type of numbers
            index = int(index)
        if type(index) is not int or not 0 <= index < len(items):
            raise ValueError(f"it refers to {kind}[{short(index)}], but there are {len(items)}: re-export it")
        return mapping(items[index], f"{kind}[{index}]")

    def uses(self, name: str) -> bool:
        """Return whether the document declares that it uses an extension."""
        return name in sequence(self._json.get("extensionsUsed", []), "extensionsUsed")

    def scene_number(self, name: str | None) -> int | None:
        """Return the number of the scene of a name, by default of the default scene; None in a file without scenes.

        Scenes without a name are named by their number.
        """
        names = [str(self.item("scenes", index).get("name", index)) for index in range(self.count("scenes"))]
        if name is not None:
            if name not in names:
                known = f"it has {', '.join(names[:20])}" if names else "it has no scenes: leave scene= out"
                raise ValueError(f"it has no scene {name!r}: {known}")
            return names.index(name)
        if not names:
            return None
        number = integer(self._json, "scene", 0)
        if len(names) > 1 and number < len(names):
            self._files.warnings.append(f"Loaded scene {names[number]!r} of {len(names)}: choose another with scene=")
        return number

    def placed_nodes(self, scene: int | None) -> Iterator[tuple[int, Mapping[str, Any], np.ndarray]]:
        """Return a scene's nodes with their matrices [4, 4] float64 to the world, parents before children.

        Nodes that KHR_node_visibility hides are left out, with all below them.

        Args:
            scene: Number of the scene; None means all nodes without a parent and their descendants.
        """
        if scene is not None:
            roots = list(sequence(self.item("scenes", scene).get("nodes", []), "nodes"))
        else:
            parents = self._parents()
            roots = [index for index in range(self.count("nodes")) if index not in parents]
        waiting = [(root, np.eye(4), 0) for root in reversed(roots)]
        seen: set[int] = set()
        while waiting:
            index, above, depth = waiting.pop()
            node = self.item("nodes", index)
            if index in seen or depth > MAX_DEPTH:
                raise ValueError(
                    f"node {index} is its own ancestor, has two parents or lies deeper than {MAX_DEPTH}: re-export the "
                    "file"
                )
            seen.add(index)
            if not extensions(node).get("KHR_node_visibility", {}).get("visible", True):
                self.num_hidden += 1
                continue
            matrix = above @ _local_matrix(node)
            yield index, node, matrix
            children = sequence(node.get("children", []), "children")
            waiting += [(child, matrix, depth + 1) for child in reversed(children)]

    def _parents(self) -> dict[int, int]:
        if self._parent_of is None:
            nodes = [self.item("nodes", index) for index in range(self.count("nodes"))]
            below = [sequence(node.get("children", []), "children") for node in nodes]
            self._parent_of = {child: parent for parent, children in enumerate(below) for child in children}
        return self._parent_of

    def world_matrix(self, index: object) -> np.ndarray:
        """Return the matrix [4, 4] float64 from a node to the world, whatever scene the node is in.

        Raises:
            ValueError: If the node does not exist, or is its own ancestor or too deep.
        """
        above: list[Any] = [index]
        parents = self._parents()
        while above[-1] not in self._world and above[-1] in parents:
            above.append(parents[above[-1]])
            if len(above) > MAX_DEPTH:
                raise ValueError(f"node {short(index)} is its own ancestor or deeper than {MAX_DEPTH}: re-export it")
        matrix = self._world.get(above[-1], np.eye(4))
        for at in reversed(above):
            if at not in self._world:
                self._world[at] = matrix @ _local_matrix(self.item("nodes", at))
            matrix = self._world[at]
        return matrix

    def instances(self, node: Mapping[str, Any]) -> np.ndarray:
        """Return the matrices [I, 4, 4] float64 from the copies of a node's mesh to the node.

        The copies are those of EXT_mesh_gpu_instancing; without it there is one, the mesh itself.
        """
        if "EXT_mesh_gpu_instancing" not in extensions(node):
            return np.eye(4)[None]
        instancing = mapping(extensions(node)["EXT_mesh_gpu_instancing"], "EXT_mesh_gpu_instancing")
        attributes = mapping(instancing.get("attributes"), "attributes of EXT_mesh_gpu_instancing")
        widths = {"TRANSLATION": 3, "ROTATION": 4, "SCALE": 3}
        read = {name: self.accessor(attributes[name], (width,)) for name, width in widths.items() if name in attributes}
        counts = {len(values) for values in read.values()}
        if len(counts) != 1:
            lengths = ", ".join(map(str, sorted(counts))) or "none"
            raise ValueError(
                f"the attributes of its EXT_mesh_gpu_instancing must have one length, not {lengths}: re-export it"
            )
        count = counts.pop()
        if count > MAX_NODES:
            raise ValueError(f"a node has {count:,} instances, the limit is {MAX_NODES:,}: join some")
        matrices = np.tile(np.eye(4), (count, 1, 1))
        if "ROTATION" in read:
            for matrix, (x, y, z, w) in zip(matrices, read["ROTATION"].astype(np.float64).tolist(), strict=True):
                matrix[:3, :3] = _rotation(x, y, z, w)
        if "SCALE" in read:
            matrices[:, :3, :3] *= read["SCALE"].astype(np.float64)[:, None, :]
        if "TRANSLATION" in read:
            matrices[:, :3, 3] = read["TRANSLATION"]
        return matrices

    def accessor(self, index: object, widths: Sequence[int]) -> np.ndarray:
        """Return an accessor's values [count, width]: as stored, or float32 in [-1, 1] if they are normalized.

        Args:
            index: Number of the accessor.
            widths: The allowed numbers of components.
        """
        accessor = self.item("accessors", index)
        what = f"accessor {index}"
        dtype, width, count = self._type(accessor, widths, what)
        if "bufferView" in accessor:
            offset = integer(accessor, "byteOffset", 0)
            values = self._strided(accessor["bufferView"], offset, dtype, width, count, what)
        elif count > MAX_ZEROS:
            raise ValueError(f"{what} has {count:,} elements and no data: re-export it")
        else:
            values = np.zeros((count, width), dtype)
        if "sparse" in accessor:
            values = self._patched(values, mapping(accessor["sparse"], "sparse"), what)
        return _normalized(values) if accessor.get("normalized") else values

    def unpacked(self, index: object, widths: Sequence[int], values: np.ndarray) -> np.ndarray:
        """Return the result of ``accessor`` for an accessor whose values [count, width] were decoded elsewhere."""
        accessor = self.item("accessors", index)
        what = f"accessor {index}"
        dtype, width, count = self._type(accessor, widths, what)
        if values.shape != (count, width) or values.dtype.kind not in "fiu":
            raise ValueError(f"{what} was compressed as {values.shape}, not {(count, width)}: re-export it")
        return _normalized(values.astype(dtype)) if accessor.get("normalized") else values

    def _type(self, accessor: Mapping[str, Any], widths: Sequence[int], what: str) -> tuple[type, int, int]:
        """Return the component type, width and count of an accessor, and count its elements as read."""
        dtype = COMPONENTS.get(accessor.get("componentType", 0))
        width = WIDTHS.get(str(accessor.get("type")))
        if dtype is None or width is None or width not in widths:
            kind = short(accessor.get("type"))
            component = short(accessor.get("componentType"))
            raise ValueError(f"{what} has the wrong type {kind} of {component}: re-export it")
        count = integer(accessor, "count", high=MAX_ELEMENTS)
        self._num_elements += count
        if self._num_elements > MAX_ELEMENTS_READ:
            raise ValueError(f"its meshes read more than {MAX_ELEMENTS_READ:,} vertices and indices: split it")
        return dtype, width, count

    def image(self, index: object) -> tuple[bytes | None, str]:
        """Return the bytes of an image, or None if its file is missing, and its name for messages."""
        image = self.item("images", index)
        label = str(image.get("name") or f"image {index}")
        if "bufferView" in image:
            return bytes(self.view(image["bufferView"])[0]), label
        uri = image.get("uri")
        if not isinstance(uri, str):
            raise ValueError(f"image {index} has neither a bufferView nor a uri: re-export the file")
        if uri.startswith("data:"):
            return data_uri(uri), label
        try:
            return self._beside(uri), uri
        except OSError:
            return None, uri

    def _beside(self, uri: str) -> bytes:
        """Read a file by its URI; names that some exporters write as they are may contain percent signs."""
        try:
            return self._files.beside(uri, quoted=True)
        except FileNotFoundError as error:
            try:
                return self._files.beside(uri)
            except FileNotFoundError:
                raise error from None

    def _patched(self, values: np.ndarray, sparse: Mapping[str, Any], what: str) -> np.ndarray:
        """Return a copy of ``values`` with a sparse accessor's replacements."""
        count = integer(sparse, "count", high=len(values))
        where = mapping(sparse.get("indices"), "indices")
        new = mapping(sparse.get("values"), "values")
        kind = COMPONENTS.get(where.get("componentType", 0))
        if kind not in (np.uint8, np.uint16, np.uint32):
            raise ValueError(f"{what} has sparse indices that are not unsigned integers: re-export it")
        rows = self._strided(where.get("bufferView"), integer(where, "byteOffset", 0), kind, 1, count, what)[:, 0]
        if count and rows.max() >= len(values):
            raise ValueError(f"{what} has sparse indices beyond its {len(values)} elements: re-export it")
        dtype = values.dtype.type
        width = values.shape[1]
        patched = values.copy()
        patched[rows] = self._strided(new.get("bufferView"), integer(new, "byteOffset", 0), dtype, width, count, what)
        return patched

    def _strided(self, view_index: object, offset: int, dtype: type, width: int, count: int, what: str) -> np.ndarray:
        """Return a read-only array [count, width] over a bufferView."""
        view, stride = self.view(view_index)
        element = np.dtype(dtype).itemsize * width
        stride = stride or element
        if stride < element or (count and offset + stride * (count - 1) + element > len(view)):
            raise ValueError(f"{what} exceeds its bufferView {view_index} of {len(view)} bytes: re-export it")
        if count == 0:
            return np.zeros((0, width), dtype)
        steps = (stride, np.dtype(dtype).itemsize)
        little_endian = np.dtype(dtype).newbyteorder("<")
        return np.ndarray((count, width), little_endian, view, offset, steps)

    def view(self, index: object) -> tuple[memoryview, int]:
        """Return the bytes of a bufferView and its stride, 0 for none."""
        view = self.item("bufferViews", index)
        packed = next((extensions(view)[name] for name in MESHOPT if name in extensions(view)), None)
        plain_copy = packed is not None and "uri" in self.item("buffers", view.get("buffer"))
        if packed is None or (plain_copy and not MESHOPT_PACKAGE.is_found()):
            return self._slice(view, f"bufferView {index}"), integer(view, "byteStride", 0, high=65535)
        assert isinstance(index, (int, float))
        packed = mapping(packed, "meshopt compression")
        if index not in self._unpacked:
            size = meshopt_size(packed, MAX_ELEMENTS) + sum(map(len, self._unpacked.values()))
            most = FREE_BYTES + BYTES_PER_BYTE * self._files.num_bytes
            if size > most:
                raise ValueError(f"its meshopt data expands to more than {most:,} bytes: split it or re-export it")
            data = bytes(self._slice(packed, f"the meshopt data of bufferView {index}"))
            self._unpacked[index] = memoryview(decode_meshopt(data, packed))
        return self._unpacked[index], packed["byteStride"] if packed["mode"] == "ATTRIBUTES" else 0

    def _slice(self, place: Mapping[str, Any], what: str) -> memoryview:
        """Return the bytes of a buffer from ``byteOffset``, as many as ``byteLength``."""
        buffer = self._buffer(place.get("buffer"))
        start = integer(place, "byteOffset", 0)
        length = integer(place, "byteLength")
        if start + length > len(buffer):
            raise ValueError(f"{what} exceeds its buffer of {len(buffer)} bytes: the file is damaged, re-export it")
        return buffer[start : start + length]

    def _buffer(self, index: object) -> memoryview:
        buffer = self.item("buffers", index)
        assert isinstance(index, (int, float))
        if index not in self._buffers:
            uri = buffer.get("uri")
            if uri is None and index == 0 and self._bin is not None:
                data: bytes | memoryview = self._bin
            elif not isinstance(uri, str):
                raise ValueError(f"buffer {index} has no data: re-export the file")
            else:
                data = data_uri(uri) if uri.startswith("data:") else self._beside(uri)
                check_pulled(data, repr(uri))
            length = integer(buffer, "byteLength")
            if length > len(data):
                raise ValueError(
                    f"buffer {index} has {len(data)} of its {length} bytes: the file is cut short, copy or download it "
                    "again"
                )
            self._buffers[index] = memoryview(data)[:length]
        return self._buffers[index]


def extensions(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the extensions of an entry by name."""
    return mapping(owner.get("extensions", {}), "extensions")


def _normalized(values: np.ndarray) -> np.ndarray:
    """Scale integers [count, width] to float32 with the largest as 1; return floats unchanged."""
    if values.dtype.kind == "f":
        return values
    return np.maximum(values / np.float32(np.iinfo(values.dtype).max), np.float32(-1)).astype(np.float32)


def _local_matrix(node: Mapping[str, Any]) -> np.ndarray:
    """Return a node's matrix [4, 4] float64 to its parent."""
    if "matrix" in node:
        return numbers(node, "matrix", np.eye(4).ravel().tolist()).reshape(4, 4).T
    matrix = np.eye(4)
    matrix[:3, :3] = _rotation(*numbers(node, "rotation", (0.0, 0.0, 0.0, 1.0)).tolist())
    matrix[:3, :3] *= numbers(node, "scale", (1.0, 1.0, 1.0))
    matrix[:3, 3] = numbers(node, "translation", (0.0, 0.0, 0.0))
    return matrix


def _rotation(x: float, y: float, z: float, w: float) -> np.ndarray:
    """Return the matrix [3, 3] float64 of a quaternion of any length; length 0 gives the identity."""
    return rotation_matrix(w, x, y, z) if x or y or z or w else np.eye(3)


def image_of(texture: Mapping[str, Any]) -> object:
    """Return the number of a texture's image, in the first of its formats that can be decoded; None for none.

    Raises:
        ValueError: If all of its formats need something that is not installed.
    """
    sources = {name: extensions(texture).get(name, {}).get("source") for name in _TEXTURES}
    sources = {name: source for name, source in sources.items() if source is not None}
    decoded = [source for name, source in sources.items() if _TEXTURES[name]()]
    if decoded or texture.get("source") is not None or not sources:
        return decoded[0] if decoded else texture.get("source")
    if "KHR_texture_basisu" in sources:
        return sources["KHR_texture_basisu"]  # refused with the remedy once the image is seen to be KTX2
    raise ValueError("its textures are only AVIF, which needs Pillow 11.3: update Pillow, or convert them to PNG")


def base_color_texture(material: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a material's reference to its base colour texture, empty for none."""
    gloss = extensions(material).get("KHR_materials_pbrSpecularGlossiness")
    if gloss is not None:
        return gloss.get("diffuseTexture", {})
    return material.get("pbrMetallicRoughness", {}).get("baseColorTexture", {})


@dataclass(frozen=True, slots=True)
class GltfCounts:
    """The content of a glTF file, as its headers declare it; strips and instances make the true counts differ."""

    num_triangles: int
    num_vertices: int
    num_textures: int  # of the base colours; others are not loaded
    texture_size: int  # pixels of the longest side after scaling
    texture_bytes: int  # after scaling


def count_gltf(path: Path, texture_size: int | str = AUTO) -> GltfCounts:
    """Return the counts of a ``.glb`` or ``.gltf`` file.

    Args:
        path: The file.
        texture_size: See ``load_scene``.

    Raises:
        ValueError: If the file is damaged, or a mesh has too many parts or the file too many images to be loaded.
        OSError: If it cannot be read.
    """
    files = SceneFiles(path)
    document = GltfDocument(files)
    triangles = vertices = 0
    meshes: dict[object, tuple[int, int]] = {}
    nodes = [document.item("nodes", index) for index in range(document.count("nodes"))]
    placed = [node["mesh"] for node in nodes if "mesh" in node] if nodes else range(document.count("meshes"))
    for number in placed:
        mesh = document.item("meshes", number)
        if number not in meshes:
            meshes[number] = _count_mesh(document, mesh)
        triangles += meshes[number][0]
        vertices += meshes[number][1]
    sides = []
    images = ImageBudget(files)
    infos = [base_color_texture(document.item("materials", index)) for index in range(document.count("materials"))]
    for source in {image_of(document.item("textures", info.get("index"))) for info in infos if info} - {None}:
        data, label = document.image(source)
        images.add(len(data or b""))
        with suppress(ValueError):  # loading reports it
            if data is not None:
                image = open_image(data, label, decodes=False)
                sides.append((image.width, image.height))
    size, num_bytes = size_for(sides, texture_size)
    return GltfCounts(triangles, vertices, len(sides), size, num_bytes)


def _count_mesh(document: GltfDocument, mesh: Mapping[str, Any]) -> tuple[int, int]:
    """Return the triangles and vertices of a mesh; ValueError if it has too many parts."""
    primitives = sequence(mesh.get("primitives", []), "primitives")
    if len(primitives) > MAX_PARTS:
        raise ValueError(TOO_MANY_PARTS)
    triangles = vertices = 0
    for item in primitives:
        primitive = mapping(item, "a primitive")
        attributes = mapping(primitive.get("attributes"), "attributes")
        if "POSITION" in attributes and primitive.get("mode", 4) == 4:
            points = integer(document.item("accessors", attributes["POSITION"]), "count")
            corners = primitive.get("indices")
            vertices += points
            triangles += (points if corners is None else integer(document.item("accessors", corners), "count")) // 3
    return triangles, vertices
