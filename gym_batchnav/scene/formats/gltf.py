"""Reading of glTF scenes: nodes, meshes and materials are added to a SceneBuilder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gym_batchnav.scene.builder import MAX_PARTS, TOO_MANY_PARTS, Material, Part, SceneBuilder
from gym_batchnav.scene.categories import GENERATOR, SceneObject, category_in_extras
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.gltf_codecs import decode_draco, draco_counts
from gym_batchnav.scene.formats.gltf_document import (
    FILTER,
    WRAP,
    GltfDocument,
    base_color_texture,
    extensions,
    image_of,
)
from gym_batchnav.scene.json_values import integer, mapping, number, numbers, sequence
from gym_batchnav.scene.scene import LINEAR, MASK, OPAQUE, REPEAT

MAX_JOINTS = 1_000_000  # of all skins
MAX_SETS = 8  # of four joints per vertex
MAX_INFLUENCES = 2**25  # vertices times the joints that may move each, of all primitives
_TRIANGLES = 4
_FAN = 6
_Read = Callable[[str, Sequence[int]], np.ndarray]  # an attribute's name and allowed widths to its values


def read_gltf(files: SceneFiles, builder: SceneBuilder, scene: str | None = None) -> None:
    """Add one of a glTF file's scenes to a builder, one object per node with triangles, or per instance of its mesh.

    A file without scenes gives all of its nodes; one without nodes gives each mesh once.

    Args:
        files: The scene's files; the main one is a ``.glb`` or a ``.gltf``.
        builder: Gets the content.
        scene: The name of the scene, or its number if it has no name; the default scene if not given.

    Raises:
        ValueError: If the file is damaged, uses an unsupported feature or has no scene of the name.
        OSError: If the file of a buffer is missing.
    """
    document = GltfDocument(files)
    reader = _Reader(document, builder)
    number = document.scene_number(scene)
    if document.count("nodes"):
        for index, node, matrix in document.placed_nodes(number):
            if "mesh" in node:
                # A skinned mesh stands where its joints are, whatever the node's own transform.
                skin = node["skin"] if "skin" in node and reader.has_joints(node["mesh"]) else None
                parts = reader.mesh_parts(node["mesh"], node.get("weights"), skin)
                if not parts:  # instances of lines would take time for nothing
                    continue
                copies = matrix @ document.instances(node) if skin is None else [np.eye(4)]
                label = str(node.get("name") or f"node_{index}")
                stated = category_in_extras(node)
                one = SceneObject.named(label, stated)
                if document.generator == GENERATOR:  # a file that this package wrote
                    one = one if stated else SceneObject.generated(label)
                    extras = mapping(node.get("extras", {}), "extras")
                    category = "" if extras.get("category") == "" else one.category
                    one = SceneObject(one.name, category, extras.get("solid") is not False)
                for copy in copies:
                    builder.add_object(one, parts, copy)
    else:
        files.warnings.append("The file has meshes but no nodes: each mesh was placed once, at the origin")
        for index in range(document.count("meshes")):
            name = document.item("meshes", index).get("name")
            one = SceneObject.named(str(name or f"mesh_{index}"))
            builder.add_object(one, reader.mesh_parts(index), np.eye(4))
    if reader.has_reserved:
        files.warn("Its indices use a number that glTF reserves; it was read as the vertex of that number")
    unlit = document.uses("KHR_materials_unlit")
    sentences = {
        f"{reader.num_skipped} primitives of lines or points were left out": reader.num_skipped,
        "The file has morph targets: meshes are shown with the weights that the file gives": reader.has_targets,
        "The file has skins: skinned meshes are shown in the rest pose of their joints": reader.has_skins,
        "The file has unlit materials, which are drawn with light: Camera(lit=False) leaves it out": unlit,
        f"{document.num_hidden} nodes that the file hides were left out": document.num_hidden,
    }
    files.warnings += [sentence for sentence, applies in sentences.items() if applies]


class _Reader:
    """A converter of meshes and materials to parts, each only once."""

    def __init__(self, document: GltfDocument, builder: SceneBuilder) -> None:
        self._document = document
        self._builder = builder
        self._meshes: dict[tuple[object, ...], list[Part]] = {}  # by number, weights of targets and skin
        self._skins: dict[object, np.ndarray] = {}
        self._skinned: dict[object, bool] = {}  # whether all vertices of a mesh have joints
        self._images: dict[object, int] = {}
        self._num_influences = 0
        self.num_skipped = 0
        self.has_reserved = False
        self.has_targets = False
        self.has_skins = False

    def has_joints(self, index: object) -> bool:
        if index not in self._skinned:
            primitives = sequence(self._document.item("meshes", index).get("primitives", []), "primitives")
            attributes = [primitive["attributes"].keys() for primitive in primitives]
            self._skinned[index] = all({"JOINTS_0", "WEIGHTS_0"} <= names for names in attributes)
        return self._skinned[index]

    def mesh_parts(self, index: object, weights: object = None, skin: object = None) -> list[Part]:
        """Return the parts of a mesh, one per primitive.

        Args:
            index: Number of the mesh.
            weights: The weights of its morph targets; None for those of the mesh.
            skin: Number of the skin that places its vertices in the world; None leaves them in the mesh.
        """
        mesh = self._document.item("meshes", index)
        given = sequence(mesh.get("weights", []) if weights is None else weights, "weights")
        amounts = tuple(numbers({"weights": given}, "weights", [0.0] * len(given)).tolist())
        if (index, amounts, skin) not in self._meshes:
            primitives = sequence(mesh.get("primitives", []), "primitives")
            if len(primitives) > MAX_PARTS:  # reading them takes long
                raise ValueError(TOO_MANY_PARTS)
            joints = None if skin is None else self._joints(skin)
            found = [self._primitive_part(primitive, amounts, joints) for primitive in primitives]
            self._meshes[index, amounts, skin] = [part for part in found if part is not None]
        return self._meshes[index, amounts, skin]

    def _joints(self, skin: object) -> np.ndarray:
        if skin not in self._skins:
            self._skins[skin] = joint_matrices(self._document, skin)
            if sum(map(len, self._skins.values())) > MAX_JOINTS:
                raise ValueError(f"its skins have more than {MAX_JOINTS:,} joints: re-export it without skins")
        return self._skins[skin]

    def _primitive_part(
        self, primitive: Mapping[str, Any], weights: Sequence[float], joints: np.ndarray | None
    ) -> Part | None:
        mode = integer(primitive, "mode", _TRIANGLES, high=_FAN)
        attributes = primitive["attributes"]
        if mode < _TRIANGLES:
            self.num_skipped += 1
            return None
        if "POSITION" not in attributes:
            return None
        document = self._document
        draco = extensions(primitive).get("KHR_draco_mesh_compression")
        if draco and "bufferView" not in document.item(
            "accessors", attributes["POSITION"]
        ):  # otherwise the uncompressed data is there too
            triangles, read = self._unpack(draco, primitive)
        else:
            triangles = None
            read = partial(self._read_accessor, attributes)
        vertices = self._morphed(read("POSITION", (3,)), primitive, weights)
        if joints is not None:
            self.has_skins = True
            self._num_influences += 4 * len(vertices) * sum(name.startswith("JOINTS_") for name in attributes)
            if self._num_influences > MAX_INFLUENCES:
                most = f"{MAX_INFLUENCES:,} joint weights"
                raise ValueError(f"its skins have more than {most}: re-export it without skins, or with fewer vertices")
            vertices = posed(vertices, read, attributes, joints)
        if triangles is None:
            triangles = _triangles(*self._corners(primitive, len(vertices), mode), mode)
        else:
            triangles = _triangles(_within(triangles.ravel(), len(vertices)), None, _TRIANGLES)
        material = document.item("materials", primitive["material"]) if "material" in primitive else {}
        texture_info = base_color_texture(material)
        uvs = self._uvs(read, attributes, texture_info, len(vertices)) if texture_info else None
        number_of = int(primitive.get("material", -1))
        look = self._material(material, texture_info if uvs is not None else {}, number_of)
        uvs = uvs if look.image >= 0 else None
        colors = self._colors(read, len(vertices)) if "COLOR_0" in attributes else None
        return self._builder.part(vertices, triangles, look, uvs, colors)

    def _morphed(self, vertices: np.ndarray, primitive: Mapping[str, Any], weights: Sequence[float]) -> np.ndarray:
        """Return vertices [V, 3] moved by the morph targets of a primitive with the weights that are not 0."""
        targets = sequence(primitive.get("targets", []), "targets")
        self.has_targets |= bool(targets)
        for target, weight in zip(targets, weights, strict=False):
            place = mapping(target, "a morph target").get("POSITION")
            if weight and place is not None:
                moves = _sized(self._document.accessor(place, (3,)), len(vertices), "POSITION of a morph target")
                vertices = vertices + weight * moves
        return vertices

    def _read_accessor(self, attributes: Mapping[str, Any], name: str, widths: Sequence[int]) -> np.ndarray:
        return self._document.accessor(attributes[name], widths)

    def _unpack(self, draco: Mapping[str, Any], primitive: Mapping[str, Any]) -> tuple[np.ndarray, _Read]:
        """Decode a compressed primitive: return its triangles [T, 3] and a function that reads its attributes."""
        attributes = primitive["attributes"]
        data = bytes(self._document.view(draco.get("bufferView"))[0])
        num_vertices, num_triangles = draco_counts(data)
        known = [attributes["POSITION"], *([primitive["indices"]] if "indices" in primitive else [])]
        counts = [integer(self._document.item("accessors", index), "count") for index in known]
        if num_vertices > counts[0] or (len(counts) == 2 and 3 * num_triangles > counts[1]):
            made = f"{num_vertices:,} vertices and {num_triangles:,} triangles"
            raise ValueError(f"its Draco data declares {made}, more than its accessors: re-export it")
        self._builder.expect(num_vertices, num_triangles)
        triangles, packed = decode_draco(data)
        numbers_of = draco.get("attributes", {})

        def read(name: str, widths: Sequence[int]) -> np.ndarray:
            if name not in numbers_of:
                return self._read_accessor(attributes, name, widths)
            return self._document.unpacked(attributes[name], widths, packed[numbers_of[name]])

        return triangles, read

    def _corners(
        self, primitive: Mapping[str, Any], num_vertices: int, mode: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the corners [C] of a primitive, and where strips or fans begin anew [C] bool or None."""
        if "indices" not in primitive:
            return np.arange(num_vertices, dtype=np.uint32), None
        corners = self._document.accessor(primitive["indices"], (1,))[:, 0]
        if corners.dtype.kind != "u":
            raise ValueError(f"accessor {primitive['indices']} has indices that are not unsigned: re-export it")
        restart = np.iinfo(corners.dtype).max
        restarts = corners == restart
        if not restarts.any():
            return _within(corners, num_vertices), None
        if mode == _TRIANGLES and restart < num_vertices:  # some exporters use all numbers of a type
            self.has_reserved = True
            return _within(corners, num_vertices), None
        if mode == _TRIANGLES or not self._document.uses("KHR_mesh_primitive_restart"):
            raise ValueError(f"its indices contain {restart}, which glTF reserves to restart primitives: re-export it")
        return _within(np.where(restarts, corners.dtype.type(0), corners), num_vertices), restarts

    def _uvs(
        self, read: _Read, attributes: Mapping[str, Any], texture_info: Mapping[str, Any], count: int
    ) -> np.ndarray | None:
        """Return the texture coordinates of a texture reference, with its KHR_texture_transform applied."""
        transform = extensions(texture_info).get("KHR_texture_transform", {})
        own = transform if "texCoord" in transform else texture_info
        name = f"TEXCOORD_{integer(own, 'texCoord', 0)}"
        if name not in attributes:
            return None
        uvs = _sized(read(name, (2,)), count, name)
        if not transform:
            return uvs
        angle = number(transform, "rotation", 0.0)
        u, v = (uvs * numbers(transform, "scale", (1.0, 1.0))).T
        # Counter-clockwise with v downwards, as in all renderers: the listing in the specification is transposed.
        turned = np.stack([np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u], axis=1)
        return turned + numbers(transform, "offset", (0.0, 0.0))

    def _colors(self, read: _Read, count: int) -> np.ndarray:
        values = _sized(read("COLOR_0", (3, 4)), count, "COLOR_0")
        if values.dtype.kind != "f":
            raise ValueError("its COLOR_0 is neither float nor normalized: re-export it")
        colors = np.full((count, 4), 255, np.uint8)
        colors[:, : values.shape[1]] = np.round(np.clip(np.nan_to_num(values), 0, 1) * 255)
        return colors

    def _material(self, material: Mapping[str, Any], texture_info: Mapping[str, Any], number_of: int) -> Material:
        gloss = extensions(material).get("KHR_materials_pbrSpecularGlossiness")
        factors = gloss if gloss is not None else material.get("pbrMetallicRoughness", {})
        factor = numbers(factors, "diffuseFactor" if gloss is not None else "baseColorFactor", (1.0, 1.0, 1.0, 1.0))
        mode = material.get("alphaMode", "OPAQUE")
        cutoff = number(material, "alphaCutoff", 0.5)
        image = self._texture(texture_info) if texture_info else -1
        sampler = self._sampler(texture_info) if image >= 0 else {}
        red, green, blue, alpha = np.clip(factor, 0, 1).tolist()
        return Material(
            base_color=(red, green, blue, alpha),
            image=image,
            alpha_mode=MASK if mode in ("MASK", "BLEND") else OPAQUE,
            alpha_cutoff=cutoff if mode == "MASK" else 0.5,
            double_sided=bool(material.get("doubleSided", False)),
            wrap=(WRAP.get(sampler.get("wrapS", 0), REPEAT), WRAP.get(sampler.get("wrapT", 0), REPEAT)),
            filter=FILTER.get(sampler.get("magFilter", 0), LINEAR),
            number=number_of,
        )

    def _sampler(self, texture_info: Mapping[str, Any]) -> Mapping[str, Any]:
        texture = self._document.item("textures", texture_info.get("index"))
        return self._document.item("samplers", texture["sampler"]) if "sampler" in texture else {}

    def _texture(self, texture_info: Mapping[str, Any]) -> int:
        """Return the builder's number of a referenced image, -1 for none."""
        document = self._document
        texture = document.item("textures", texture_info.get("index"))
        source = image_of(texture)
        if source is None:
            unread = ", ".join(name for name in extensions(texture) if "_texture_" in name)
            if unread and unread not in self._images:
                self._images[unread] = self._builder.add_image(None, unread)
            return -1
        if source not in self._images:
            self._images[source] = self._builder.add_image(*document.image(source))
        return self._images[source]


def _triangles(corners: np.ndarray, restarts: np.ndarray | None, mode: int) -> np.ndarray:
    """Convert a list of corners [C] to triangles [T, 3]; surplus corners are ignored.

    ``restarts`` [C] bool are the places that hold no corner but begin a strip or fan anew; None for none.
    """
    corners = corners.astype(np.int32)
    if mode == _TRIANGLES:
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if len(corners) < 3:
        return np.zeros((0, 3), np.int32)
    restarts = np.zeros(len(corners), bool) if restarts is None else restarts
    place = np.arange(len(corners), dtype=np.int32)
    first = np.maximum.accumulate(np.where(restarts, place + 1, 0))  # of the strip or fan that a corner is in
    if mode == _FAN:
        whole = ~restarts[1:-1] & ~restarts[2:] & (first[1:-1] < place[1:-1])
        return np.stack([corners[1:-1], corners[2:], corners[first[1:-1] % len(corners)]], axis=1)[whole]
    triangles = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
    odd = (place - first)[:-2] % 2 == 1
    triangles[odd] = triangles[odd][:, [0, 2, 1]]  # every second triangle of a strip winds the opposite way
    return triangles[~restarts[:-2] & ~restarts[1:-1] & ~restarts[2:]]


def _within(corners: np.ndarray, num_vertices: int) -> np.ndarray:
    if len(corners) and int(corners.max()) >= num_vertices:
        raise ValueError(f"its triangles refer to vertex {corners.max()}, but there are {num_vertices}: re-export it")
    return corners


def _sized(values: np.ndarray, count: int, name: str) -> np.ndarray:
    if len(values) != count:
        raise ValueError(f"its {name} has {len(values)} elements for {count} vertices: re-export it")
    return values


def joint_matrices(document: GltfDocument, index: object) -> np.ndarray:
    """Return the matrices [J, 4, 4] float64 from a skinned mesh to the world, one for each joint of a skin.

    Raises:
        ValueError: If the skin has no joints, or fewer inverse bind matrices than joints.
    """
    skin = document.item("skins", index)
    nodes = sequence(skin.get("joints", []), "joints")
    if not 0 < len(nodes) <= document.count("nodes"):
        raise ValueError(
            f"skin {index} has {len(nodes):,} joints, but there are {document.count('nodes'):,} nodes: re-export it"
        )
    joints = [document.world_matrix(node) for node in nodes]
    matrices = np.stack(joints)
    if "inverseBindMatrices" in skin:
        inverse = document.accessor(skin["inverseBindMatrices"], (16,)).astype(np.float64)
        if len(inverse) < len(joints):
            raise ValueError(f"skin {index} has {len(inverse)} inverse matrices for {len(joints)} joints: re-export it")
        matrices = matrices @ inverse[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
    return matrices


def posed(vertices: np.ndarray, read: _Read, attributes: Mapping[str, object], matrices: np.ndarray) -> np.ndarray:
    """Return vertices [V, 3] float64 in the world, each moved by the weighted mean of its joints' matrices.

    A vertex with only zero weights follows its first joint.

    Args:
        vertices: [V, 3], in the mesh.
        read: Reads an attribute of the primitive.
        attributes: The primitive's attributes, with ``JOINTS_0`` and ``WEIGHTS_0``.
        matrices: [J, 4, 4], see ``joint_matrices``.

    Raises:
        ValueError: If joints or weights are missing for some vertices, or name joints that the skin does not have.
    """
    sets = [k for k in range(MAX_SETS) if {f"JOINTS_{k}", f"WEIGHTS_{k}"} <= attributes.keys()]
    joints = np.concatenate([read(f"JOINTS_{k}", (4,)) for k in sets], axis=1)
    weights = np.concatenate([read(f"WEIGHTS_{k}", (4,)) for k in sets], axis=1).astype(np.float64)
    if joints.shape != weights.shape or len(joints) != len(vertices) or joints.dtype.kind != "u":
        raise ValueError(
            f"its joints {joints.shape} and weights {weights.shape} do not fit {len(vertices)} vertices: re-export it"
        )
    weights = np.maximum(np.nan_to_num(weights), 0)
    weights[weights.sum(axis=1) == 0, 0] = 1
    weights /= weights.sum(axis=1, keepdims=True)
    used = joints[weights > 0]
    if used.size and used.max() >= len(matrices):
        raise ValueError(f"its vertices refer to joint {used.max()}, but there are {len(matrices)}: re-export it")
    moved = np.zeros((len(vertices), 3))
    for column in range(joints.shape[1]):
        matrix = matrices[np.where(weights[:, column] > 0, joints[:, column], 0)]
        place = np.einsum("vij,vj->vi", matrix[:, :3, :3], vertices) + matrix[:, :3, 3]
        moved += weights[:, column, None] * place
    return moved
