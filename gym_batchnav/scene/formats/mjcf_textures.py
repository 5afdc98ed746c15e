"""Textures of MuJoCo models, mapped to triangles as MuJoCo's renderer maps them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image

from gym_batchnav.scene.builder import SceneBuilder
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.gltf_codecs import Ktx2Image
from gym_batchnav.scene.formats.mjcf_document import FILE_TEXTURE, SIDES, FileTexture
from gym_batchnav.scene.images import DamagedImageError, open_image

TEXTURE_2D = 0  # mjtTexture
# The sides of a cube map: the axis that leads to a side and its sign; the axes of u and v with theirs. As in OpenGL.
_CUBE = (
    *((0, 1.0, 2, -1.0, 1, -1.0), (0, -1.0, 2, 1.0, 1, -1.0), (1, 1.0, 0, 1.0, 2, 1.0), (1, -1.0, 0, 1.0, 2, -1.0)),
    *((2, 1.0, 0, 1.0, 1, -1.0), (2, -1.0, 0, -1.0, 1, -1.0)),
)


class Textures:
    """The textures of a compiled model, which are added to the scene when they are first used.

    Args:
        files: The scene's files.
        builder: Gets the pictures.
        model: Arrays of the compiled model.
        from_files: The textures that have files.
    """

    def __init__(
        self,
        files: SceneFiles,
        builder: SceneBuilder,
        model: Mapping[str, np.ndarray],
        from_files: list[FileTexture],
    ) -> None:
        self._files = files
        self._builder = builder
        self._model = model
        self._from_files = from_files
        self._images: dict[object, int] = {}

    def is_flat(self, texture: int) -> bool:
        """Return whether a texture is a picture rather than a cube."""
        return int(self._model["tex_type"][texture]) == TEXTURE_2D

    def has_alpha(self, texture: int) -> bool:
        """Return whether a texture has alpha."""
        source = self._source(texture)
        return source is not None and source.has_alpha

    def image(self, texture: int, side: int = 0) -> int:
        """Return the builder's number of a texture, or of a side of a cube; -1 if its file is missing or damaged."""
        source = self._source(texture)
        if source is None:
            return self._generated(texture, side)
        several = len(source.paths) > 1
        path = source.paths[side] if several else source.paths[0]
        square = None if several or source.grid == (1, 1) else source.layout.rfind(SIDES[side][0].upper())
        if path is None or square == -1:
            return self._once(("blank", source.blank), lambda: _png(_blank(source.blank)), "a side of a cube")
        edited = square is not None or any(source.flips)
        key = (path, square, source.flips)
        if key not in self._images:
            data = self._bytes(path)
            if edited and data is not None:
                data = _edited(data, path, source, square)
            self._images[key] = self._builder.add_image(data, path)
        return self._images[key]

    def _source(self, texture: int) -> FileTexture | None:
        _, found, number = str(self._model["tex_name"][texture]).rpartition(FILE_TEXTURE)
        return self._from_files[int(number)] if found and number.isdecimal() else None

    def _bytes(self, path: str) -> bytes | None:
        try:
            return self._files.beside(path, any_case=True)
        except OSError:
            return None

    def _generated(self, texture: int, side: int) -> int:
        """Return the number of a procedural texture, or of one of its six squares."""
        model = self._model
        width, height = int(model["tex_width"][texture]), int(model["tex_height"][texture])
        channels = int(model["tex_nchannel"][texture])
        start = int(model["tex_adr"][texture])
        pixels = model["tex_data"][start : start + width * height * channels].reshape(height, width, channels)
        if not self.is_flat(texture) and height == 6 * width:
            pixels = pixels[side * width : (side + 1) * width]
        else:
            side = 0
        return self._once(("generated", texture, side), lambda: _png(pixels[..., :3]), "a procedural texture")

    def _once(self, key: object, make: Callable[[], bytes], label: str) -> int:
        if key not in self._images:
            self._images[key] = self._builder.add_image(make(), label)
        return self._images[key]


def _blank(color: tuple[float, float, float]) -> np.ndarray:
    return np.full((2, 2, 3), np.clip(np.array(color) * 255, 0, 255), np.uint8)


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


def flat_uvs(vertices: np.ndarray, half_sizes: np.ndarray, repeat: np.ndarray, uniform: bool) -> np.ndarray:
    """Return texture coordinates [V, 2] of a picture that is projected along z, for shapes without their own.

    The picture is repeated ``repeat`` times over the geom, or if ``uniform`` over every two metres, which is how MuJoCo
    draws it although its manual speaks of one. An infinite plane is uniform.

    Args:
        vertices: [V, 3], in the geom's frame.
        half_sizes: [2 or more], of the geom along x and y, 0 for infinite.
        repeat: [2].
        uniform: See above.
    """
    extent = np.where((half_sizes[:2] > 0) & (not uniform), half_sizes[:2], 1.0)
    return 0.5 * repeat * vertices[:, :2] / extent * [1.0, -1.0] - 0.5


class CubeSide(NamedTuple):
    """Triangles that show one side of a cube."""

    side: int  # in SIDES
    vertices: np.ndarray  # [V, 3]
    triangles: np.ndarray  # [T, 3]
    uvs: np.ndarray  # [V, 2]


def cube_sides(vertices: np.ndarray, triangles: np.ndarray, directions: np.ndarray) -> list[CubeSide]:
    """Divide triangles by the sides of a cube that they show, seen from its centre.

    A triangle shows the side before its middle, up to that side's edge.

    Args:
        vertices: [V, 3].
        triangles: [T, 3].
        directions: [V, 3], where the vertices lie in the cube.
    """
    middles = directions[triangles].sum(axis=1)
    axis = np.abs(middles).argmax(axis=1)
    shown = 2 * axis + (middles[np.arange(len(middles)), axis] < 0)
    found = []
    for side in np.unique(shown).tolist():
        ahead, sign, across, across_sign, down, down_sign = _CUBE[side]
        used, corners = np.unique(triangles[shown == side], return_inverse=True)
        seen = directions[used]
        distance = np.maximum(sign * seen[:, ahead], 1e-9 + 1e-3 * np.abs(seen).max(axis=1))
        uvs = np.stack([across_sign * seen[:, across] / distance, down_sign * seen[:, down] / distance], axis=1)
        uvs = np.clip(uvs / 2 + 0.5, 0.0, 1.0)
        found.append(CubeSide(side, vertices[used], corners.reshape(-1, 3).astype(np.int32), uvs))
    return found
