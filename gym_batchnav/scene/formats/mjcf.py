"""Reading of MuJoCo's XML (MJCF), compiled by the package ``mujoco``."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from gym_batchnav.scene.builder import Material, Part, SceneBuilder
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.color import srgb_to_linear
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.gltf_codecs import Ktx2Image
from gym_batchnav.scene.formats.mjcf_compile import compile_mjcf
from gym_batchnav.scene.formats.mjcf_document import FILE_TEXTURE, SIDES, Document, FileTexture, read_document
from gym_batchnav.scene.formats.mjcf_shapes import BOX, HFIELD, MESH, PLANE, Shape, plane, shape_of
from gym_batchnav.scene.images import DamagedImageError, open_image
from gym_batchnav.scene.scene import CLAMP, MASK, OPAQUE, REPEAT
from gym_batchnav.system.wording import counted

VISIBLE_GROUPS = 3  # MuJoCo's viewer shows groups 0, 1 and 2 unless asked for others
_UNSET = np.array([0.5, 0.5, 0.5, 1.0], np.float32)  # the colour of a geom that sets none
_COVERED = 0.02  # metres by which a shape for collisions may exceed what is seen of its body
_EMPTY_EXTENT = 5.0  # metres, half the size of an infinite plane in a scene with nothing else
_LOWERED = 0.001  # metres, of infinite planes: floors are often drawn at the same height
_MIN_SHARED_PARTS = 3  # of the path of a folder that models share, counting the root
_TEXTURE_2D = 0  # mjtTexture
# The sides of a cube map: the axis that leads to a side and its sign; the axes of u and v with theirs. As in OpenGL.
_CUBE = (
    *((0, 1.0, 2, -1.0, 1, -1.0), (0, -1.0, 2, 1.0, 1, -1.0), (1, 1.0, 0, 1.0, 2, 1.0), (1, -1.0, 0, 1.0, 2, -1.0)),
    *((2, 1.0, 0, 1.0, 1, -1.0), (2, -1.0, 0, -1.0, 1, -1.0)),
)
_ID = re.compile(r"\d+|(?=.*\d)[0-9a-fA-F]{6,}")  # numbers and hexadecimal digests in names


def model_files(path: Path) -> SceneFiles:
    """Return the files of a model, which may share meshes, textures and other models with models in sibling folders.

    The folder around the model's own is shared, unless it holds the user's home or is one of the system's, as ``/tmp``.
    In MolmoSpaces' layout, where a home is ``ROOT/scenes/DATASET/HOME.xml``, it is ``ROOT``, and links in
    ``ROOT/objects`` are followed.
    """
    around = Path(path).absolute().parent.parent
    root = around.parent
    if around.name == "scenes" and (root / "objects").is_dir():
        return SceneFiles(path, root, root / "objects")
    holds_home = Path(os.path.expanduser("~")).resolve().is_relative_to(around.resolve())
    return SceneFiles(path, None if holds_home or len(around.resolve().parts) < _MIN_SHARED_PARTS else around)


def category_of(name: str) -> str:
    """Return the category in a body's name: its words before the first number or digest.

    ``bed_1|2|3`` is a ``bed``, ``Chair_0_1`` a ``Chair``, ``dining_table_9a66c2f01b_1_0`` a ``dining_table``. A name
    that begins with a number is its own category.
    """
    words = []
    for word in re.split(r"[_|/\s-]+", name):
        if _ID.fullmatch(word):
            break
        words.append(word)
    return re.sub(r"\d+$", "", "_".join(filter(None, words))) or name


def read_mjcf(files: SceneFiles, builder: SceneBuilder) -> None:
    """Add a model of MuJoCo in its initial pose: one object per body of the world, or per geom of the world itself.

    A body includes those attached to it. If the world has a single body, and this has no geoms, its child bodies are
    the objects. Geoms are shown as by MuJoCo's viewer: those of groups 0 to 2 whose alpha is not zero. A geom that
    collides is left out where geoms of its body that do not collide cover it, if these belong to another group, or if
    they have a material and it has none.

    Args:
        files: The scene's files; the main one is an ``.xml``.
        builder: Gets the content.

    Raises:
        ValueError: If the package ``mujoco`` is not installed, or the model is damaged, too large, or refers to files
            outside its folder.
    """
    document = read_document(files)
    model = compile_mjcf(document)
    document.assets.clear()  # the model holds what they contain
    reader = _Reader(files, builder, model, document)
    visible = reader.visible()
    boxes = [box for box in map(reader.box, visible) if box is not None]
    objects = _objects(model)
    parts: dict[int, list[Part]] = {}
    for geom in visible:
        parts.setdefault(int(objects[geom]), []).extend(reader.parts(geom, boxes))
    for key, own in parts.items():
        name = _name(model, key)
        builder.add_object(SceneObject.named(name, category_of(name)), own, np.eye(4))


class _Reader:
    def __init__(
        self, files: SceneFiles, builder: SceneBuilder, model: Mapping[str, np.ndarray], document: Document
    ) -> None:
        self._files = files
        self._builder = builder
        self._model = model
        self._textures = document.textures
        self._images: dict[object, int] = {}  # numbers of the builder
        self._boxes: dict[int, np.ndarray | None] = {}
        self._meshes: dict[int, Shape | None] = {}
        self._colors = np.where(
            ((model["geom_matid"] >= 0) & (model["geom_rgba"] == _UNSET).all(axis=1))[:, None],
            model["mat_rgba"][model["geom_matid"]] if len(model["mat_rgba"]) else model["geom_rgba"],
            model["geom_rgba"],
        )
        if document.left_out:
            shown = ", ".join(f"{count} <{tag}>" for tag, count in sorted(document.left_out.items()))
            files.warnings.append(f"Soft bodies and plugins were left out: {shown}")

    def visible(self) -> list[int]:
        """Return the geoms that are shown; the others are counted in the warnings."""
        model = self._model
        seen = (model["geom_group"] < VISIBLE_GROUPS) & (self._colors[:, 3] > 0)
        self._expect(seen)
        num_hidden = int((~seen).sum())
        covered = self._covered(seen)
        if num_hidden:
            self._files.warnings.append(f"{counted(num_hidden, 'geom')} left out, which MuJoCo does not show either")
        if covered.any():
            sentence = "geoms for collisions were left out, since their bodies have others for display"
            self._files.warnings.append(f"{int(covered.sum())} {sentence}")
        return np.flatnonzero(seen & ~covered).tolist()

    def _expect(self, seen: np.ndarray) -> None:
        """Raise ValueError if the meshes and height fields of geoms [G] are too large together."""
        model = self._model
        rows = model["geom_dataid"]
        meshes = rows[seen & (model["geom_type"] == MESH) & (rows >= 0)]
        fields = rows[seen & (model["geom_type"] == HFIELD) & (rows >= 0)]
        cells = int((model["hfield_nrow"][fields].astype(np.int64) * model["hfield_ncol"][fields]).sum())
        num_vertices = int(model["mesh_vertnum"][meshes].sum(dtype=np.int64)) + cells
        self._builder.expect(num_vertices, int(model["mesh_facenum"][meshes].sum(dtype=np.int64)) + 2 * cells)

    def _covered(self, seen: np.ndarray) -> np.ndarray:
        """Return which geoms [G] only collide; see ``read_mjcf``."""
        model = self._model
        groups, materials, bodies = model["geom_group"], model["geom_matid"], model["geom_bodyid"]
        collides = model["geom_collides"] & seen & (bodies > 0)
        shown = seen & ~model["geom_collides"]
        covered = np.zeros(len(seen), bool)
        covers: dict[int, list[int]] = {}
        for geom in np.flatnonzero(shown & np.isin(bodies, bodies[collides])).tolist():
            covers.setdefault(int(bodies[geom]), []).append(geom)
        for geom in np.flatnonzero(collides).tolist():
            others = [
                self.box(other)
                for other in covers.get(int(bodies[geom]), [])
                if groups[other] != groups[geom] or materials[geom] < 0 <= materials[other]
            ]
            box = self.box(geom)
            known = [other for other in others if other is not None]
            if box is not None and known:
                low = np.min([other[0] for other in known], axis=0) - _COVERED
                high = np.max([other[1] for other in known], axis=0) + _COVERED
                covered[geom] = bool((box[0] >= low).all() and (box[1] <= high).all())
        return covered

    def box(self, geom: int) -> np.ndarray | None:
        """Return the box [2, 3] of a geom in the world; None if it is infinite."""
        if geom not in self._boxes:
            shape = self._shape(geom)
            points = np.zeros((0, 3)) if shape is None else _in_world(self._model, geom, shape.vertices)
            self._boxes[geom] = np.stack([points.min(axis=0), points.max(axis=0)]) if len(points) else None
        return self._boxes[geom]

    def _shape(self, geom: int) -> Shape | None:
        if int(self._model["geom_type"][geom]) != MESH:
            return shape_of(self._model, geom)
        mesh = int(self._model["geom_dataid"][geom])
        if mesh not in self._meshes:
            self._meshes[mesh] = shape_of(self._model, geom)
        return self._meshes[mesh]

    def parts(self, geom: int, boxes: list[np.ndarray]) -> list[Part]:
        """Return the triangles of a geom in the world; infinite planes end where ``boxes`` do."""
        shape = self._shape(geom)
        if shape is None and int(self._model["geom_type"][geom]) == PLANE:
            shape = _bounded(self._model, geom, boxes)
        if shape is None:
            self._files.warnings.append(f"{_name(self._model, -1 - geom)} was left out: it has no triangles")
            return []
        found = (part for part in self._geom_parts(geom, shape) if part is not None)
        return [replace(part, vertices=_in_world(self._model, geom, part.vertices)) for part in found]

    def _geom_parts(self, geom: int, shape: Shape) -> list[Part | None]:
        model = self._model
        red, green, blue, alpha = np.clip(self._colors[geom].astype(np.float64), 0, 1).tolist()
        linear = srgb_to_linear(np.array([red, green, blue])).tolist()
        color = (linear[0], linear[1], linear[2], alpha)
        mode = MASK if alpha < 1 else OPAQUE
        plain = Material(base_color=color, alpha_mode=mode, double_sided=True)
        material = int(model["geom_matid"][geom])
        texture = int(model["mat_texid"][material]) if material >= 0 else -1
        if texture < 0:
            return [self._builder.part(shape.vertices, shape.triangles, plain)]
        source = self._source(texture)
        mode = MASK if alpha < 1 or (source is not None and source.has_alpha) else OPAQUE
        uniform = bool(model["mat_texuniform"][material])
        size = self._half_sizes(geom)
        if self._is_flat(texture) or (shape.is_mesh and shape.uvs is not None):
            uvs = shape.uvs
            repeat = model["mat_texrepeat"][material].astype(float)
            if uvs is None:
                # Projected along z, and repeated over the geom, or if uniform over every two metres, as MuJoCo draws it
                # although its manual speaks of one. An infinite plane is uniform.
                extent = np.where((size[:2] > 0) & (not uniform), size[:2], 1.0)
                uvs = 0.5 * repeat * shape.vertices[:, :2] / extent * [1.0, -1.0] - 0.5
            else:
                uvs = uvs * repeat * np.where((size[:2] > 0) & uniform, size[:2], 1.0)
            image = self._image(texture)
            textured = Material(color, image, mode, 0.5, True, (REPEAT, REPEAT))
            one = textured if image >= 0 else plain
            return [self._builder.part(shape.vertices, shape.triangles, one, uvs if image >= 0 else None)]
        scaled = int(model["geom_type"][geom]) not in (MESH, HFIELD, PLANE)  # MuJoCo scales a unit shape
        size = np.where(size > 0, size, 1.0)
        directions = shape.vertices / size if scaled else shape.vertices
        directions = directions * size if uniform else directions
        parts = []
        for side, vertices, triangles, uvs in _cube_sides(shape.vertices, shape.triangles, directions):
            image = self._image(texture, side)
            textured = Material(color, image, mode, 0.5, True, (CLAMP, CLAMP)) if image >= 0 else plain
            parts.append(self._builder.part(vertices, triangles, textured, uvs if image >= 0 else None))
        return parts

    def _is_flat(self, texture: int) -> bool:
        """Return whether a texture is a picture rather than a cube."""
        return int(self._model["tex_type"][texture]) == _TEXTURE_2D

    def _image(self, texture: int, side: int = 0) -> int:
        """Return the builder's number of a texture, or of a side of a cube; -1 if its file is missing or damaged."""
        source = self._source(texture)
        if source is None:
            return self._generated(texture, side)
        several = len(source.paths) > 1
        path = source.paths[side] if several else source.paths[0]
        square = None if several or source.grid == (1, 1) else source.layout.rfind(SIDES[side][0].upper())
        if path is None or square == -1:
            blank = np.full((2, 2, 3), np.clip(np.array(source.blank) * 255, 0, 255), np.uint8)
            return self._once(("blank", source.blank), lambda: _png(blank), "a side of a cube")
        edited = square is not None or any(source.flips)
        key = (path, square, source.flips)
        if key not in self._images:
            data = self._files.optional(path)
            if edited and data is not None:
                data = _edited(data, path, source, square)
            self._images[key] = self._builder.add_image(data, path)
        return self._images[key]

    def _source(self, texture: int) -> FileTexture | None:
        _, found, number = str(self._model["tex_name"][texture]).rpartition(FILE_TEXTURE)
        return self._textures[int(number)] if found and number.isdecimal() else None

    def _generated(self, texture: int, side: int) -> int:
        """Return the number of a procedural texture, or of one of its six squares."""
        model = self._model
        width, height = int(model["tex_width"][texture]), int(model["tex_height"][texture])
        channels = int(model["tex_nchannel"][texture])
        start = int(model["tex_adr"][texture])
        pixels = model["tex_data"][start : start + width * height * channels].reshape(height, width, channels)
        if not self._is_flat(texture) and height == 6 * width:
            pixels = pixels[side * width : (side + 1) * width]
        else:
            side = 0
        return self._once(("generated", texture, side), lambda: _png(pixels[..., :3]), "a procedural texture")

    def _once(self, key: object, make: Callable[[], bytes], label: str) -> int:
        if key not in self._images:
            self._images[key] = self._builder.add_image(make(), label)
        return self._images[key]

    def _half_sizes(self, geom: int) -> np.ndarray:
        """Return the half sizes [3] by which MuJoCo scales a geom."""
        model = self._model
        kind = int(model["geom_type"][geom])
        x, y, z = model["geom_size"][geom].tolist()
        if kind == HFIELD:
            return model["hfield_size"][int(model["geom_dataid"][geom])][:3].astype(float)
        if kind in (BOX, MESH, PLANE) or (y > 0 and z > 0):
            return np.array([x, y, z])
        return np.array([x, x, y if y > 0 else x])  # round ones have a radius and half a length


def _objects(model: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the key of each geom's object [G]: its body, or -1 - geom for geoms of the world itself."""
    parents = model["body_parentid"]
    bodies = model["geom_bodyid"]
    own = np.bincount(bodies, minlength=len(parents))
    top = np.zeros(len(parents), int)
    world = 0
    while True:
        for body in range(1, len(parents)):  # parents come before their children
            parent = int(parents[body])
            top[body] = body if parent == world else top[parent]
        in_use = np.unique(top[bodies])
        inside = in_use[in_use != 0]
        lone = int(inside[0]) if len(inside) == 1 else 0
        if not lone or own[lone] or not (own[1:] > 0).any():
            break
        world = lone
        top[:] = 0
    keys = top[bodies]
    return np.where(keys > 0, keys, -1 - np.arange(len(bodies)))


def _name(model: Mapping[str, np.ndarray], key: int) -> str:
    kind, row = ("body", key) if key > 0 else ("geom", -1 - key)
    return str(model[f"{kind}_name"][row]) or f"{kind}_{row}"


def _in_world(model: Mapping[str, np.ndarray], geom: int, vertices: np.ndarray) -> np.ndarray:
    return vertices @ model["geom_xmat"][geom].T + model["geom_xpos"][geom]


def _bounded(model: Mapping[str, np.ndarray], geom: int, boxes: list[np.ndarray]) -> Shape:
    """Return a plane that is infinite along one axis or two as a rectangle that ends where the scene's boxes end."""
    half = model["geom_size"][geom][:2]
    low, high = np.full(2, -_EMPTY_EXTENT), np.full(2, _EMPTY_EXTENT)
    if boxes:
        box = np.stack([np.min(boxes, axis=(0, 1)), np.max(boxes, axis=(0, 1))])
        corners = np.stack(np.meshgrid(*box.T), axis=-1).reshape(-1, 3)
        local = (corners - model["geom_xpos"][geom]) @ model["geom_xmat"][geom]
        low, high = local[:, :2].min(axis=0), local[:, :2].max(axis=0)
    shape = plane(np.where(half > 0, -half, low), np.where(half > 0, half, high))
    return shape._replace(vertices=shape.vertices - [0, 0, _LOWERED])


def _png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def _edited(data: bytes, label: str, source: FileTexture, square: int | None) -> bytes | None:
    """Return one square of a picture's grid, or all of it, flipped as the texture says; None if it is damaged."""
    try:
        image = open_image(data, label)
    except DamagedImageError:
        return None
    if isinstance(image, Ktx2Image):  # MuJoCo reads no KTX2
        return None
    try:
        image.load()
    except MemoryError:
        raise
    except Exception:  # decoders raise anything on damaged files
        return None
    if square is not None:
        rows, columns = source.grid
        width, height = image.width // columns, image.height // rows
        left, top = square % columns * width, square // columns * height
        image = image.crop((left, top, left + max(width, 1), top + max(height, 1)))
    if source.flips[0]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if source.flips[1]:
        image = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    stream = io.BytesIO()
    image.convert("RGBA" if image.has_transparency_data else "RGB").save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def _cube_sides(
    vertices: np.ndarray, triangles: np.ndarray, directions: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Divide triangles by the sides of a cube that they show, seen from its centre.

    A triangle shows the side before its middle, up to that side's edge.

    Args:
        vertices: [V, 3].
        triangles: [T, 3].
        directions: [V, 3], where the vertices lie in the cube.

    Yields:
        A side's number in SIDES, and its vertices, triangles and texture coordinates [V, 2].
    """
    middles = directions[triangles].sum(axis=1)
    axis = np.abs(middles).argmax(axis=1)
    shown = 2 * axis + (middles[np.arange(len(middles)), axis] < 0)
    for side in np.unique(shown).tolist():
        ahead, sign, across, across_sign, down, down_sign = _CUBE[side]
        used, corners = np.unique(triangles[shown == side], return_inverse=True)
        seen = directions[used]
        distance = np.maximum(sign * seen[:, ahead], 1e-9 + 1e-3 * np.abs(seen).max(axis=1))
        uvs = np.stack([across_sign * seen[:, across] / distance, down_sign * seen[:, down] / distance], axis=1)
        yield side, vertices[used], corners.reshape(-1, 3).astype(np.int32), np.clip(uvs / 2 + 0.5, 0.0, 1.0)
