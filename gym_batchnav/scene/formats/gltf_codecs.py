"""Other formats inside glTF files: GLB chunks, data URIs, and data compressed by Draco, meshopt and Basis."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np

from gym_batchnav.scene.json_values import integer, short
from gym_batchnav.system.extras import OptionalPackage

GLB_MAGIC = b"glTF"
CHUNK_JSON = 0x4E4F534A
CHUNK_BIN = 0x004E4942
_DRACO = OptionalPackage("DracoPy", "DracoPy", "draco")
_DRACO_MAGIC = b"DRACO"
_MESH = 1
_SEQUENTIAL = 0
_EDGEBREAKER = 1
_DRACO_VERSION = (2, 2)  # of the bitstream, the one that glTF allows
MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
# The most bytes that a byte of compressed data can stand for, by mode: four attribute bytes of 256 vertices (in
# version 1 of the codec), three indices of 4 bytes, one index of 4 bytes.
_MOST_PER_BYTE = {"ATTRIBUTES": 1024, "TRIANGLES": 12, "INDICES": 4}
_FILTERS = {"NONE": range(4, 257, 4), "OCTAHEDRAL": (4, 8), "QUATERNION": (8,), "EXPONENTIAL": range(4, 257, 4)}
_FILTERS |= {"COLOR": (4, 8)}  # only in KHR_meshopt_compression
_INDEX_BYTES = (2, 4)
MESHOPT_PACKAGE = OptionalPackage("meshopt", "meshopt", "formats")
KTX2_MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"
BASISU = OptionalPackage("opengl_basisu", "opengl-basisu", "formats")
NO_KTX2 = "convert it to PNG or JPEG"  # the remedy where it is not installed
_LEVELS_AT = 80  # where the index of levels begins
_ETC1S = 163
_UASTC = 166
_UASTC_BLOCK = 16  # bytes for 4 x 4 pixels
_SCHEMES = {_ETC1S: (1,), _UASTC: (0, 2)}  # BasisLZ; none or Zstandard


def split_container(data: bytes) -> tuple[bytes, memoryview | None]:
    """Return the JSON and the binary chunk of a GLB file; any other file is all JSON.

    Raises:
        ValueError: If the file is damaged or of another version.
    """
    if not data.startswith(GLB_MAGIC):
        return data, None
    if len(data) < 20:
        raise ValueError("it is cut short within its header: copy or download it again")
    version, length, json_length, json_kind = struct.unpack_from("<4I", data, 4)
    if version != 2:
        raise ValueError(f"it is GLB version {version}: only 2 is supported, re-export it")
    if length > len(data) or 20 + json_length > length:
        raise ValueError(f"it has {len(data)} of {max(length, 20 + json_length)} bytes: copy or download it again")
    if json_kind != CHUNK_JSON:
        raise ValueError("its first chunk is not JSON: re-export it")
    start = 20 + json_length
    text = data[20:start].rstrip(b"\0")  # some exporters pad with zeros instead of spaces
    if start + 8 > length:
        return text, None
    bin_length, bin_kind = struct.unpack_from("<2I", data, start)
    if start + 8 + bin_length > length:
        raise ValueError("its binary chunk is cut short: copy or download it again")
    binary = memoryview(data)[start + 8 : start + 8 + bin_length] if bin_kind == CHUNK_BIN else None
    return text, binary


def data_uri(uri: str) -> bytes:
    """Return the bytes of a data URI: base64, with or without padding, or percent escapes (RFC 2397).

    Raises:
        ValueError: If it is damaged.
    """
    header, comma, payload = uri.partition(",")
    if not comma:
        raise ValueError("it has a data URI without data: re-export it")
    if not header.endswith(";base64"):
        return unquote_to_bytes(payload)
    payload = "".join(payload.split()).rstrip("=")
    try:
        return base64.b64decode(payload + "=" * (-len(payload) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"it has a damaged data URI ({error}): re-export it") from error


def draco_counts(data: bytes) -> tuple[int, int]:
    """Return the numbers of vertices and triangles that the header of Draco data declares.

    Vertices may still be split where attributes have seams.

    Raises:
        ValueError: If it is not a mesh in the version of Draco that glTF allows.
    """
    if len(data) < 12 or not data.startswith(_DRACO_MAGIC) or data[7] != _MESH or data[8] > _EDGEBREAKER:
        raise ValueError("its Draco data is not a mesh: the file is damaged, re-export it")
    if (data[5], data[6]) != _DRACO_VERSION:
        raise ValueError(f"its Draco data has version {data[5]}.{data[6]}, not 2.2: re-export it")
    first, at = _varint(data, 11 if data[8] == _SEQUENTIAL else 12)  # edgebreaker stores its kind of traversal first
    second, _ = _varint(data, at)
    return (second, first) if data[8] == _SEQUENTIAL else (first, second)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a little-endian number of seven bits per byte; return it and the offset after it."""
    value = shift = 0
    for place in range(at, min(at + 5, len(data))):
        value |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return value, place + 1
    raise ValueError("its Draco data is cut short: copy or download the file again")


def decode_draco(data: bytes) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Decode the data of ``KHR_draco_mesh_compression``.

    Args:
        data: One compressed mesh.

    Returns:
        The triangles [T, 3] uint32, and by their numbers in the data the attributes [V, width].

    Raises:
        ValueError: If DracoPy is not installed, or the data is damaged.
    """
    dracopy = _DRACO.load("it uses KHR_draco_mesh_compression, which", "re-export it without mesh compression")
    try:
        mesh = dracopy.decode(data)
        triangles = np.asarray(mesh.faces, np.uint32).reshape(-1, 3)
        attributes = {int(entry["unique_id"]): np.asarray(entry["data"]) for entry in mesh.attributes}
    except Exception as error:  # DracoPy raises errors of several types, and point clouds have no faces
        raise ValueError(f"its Draco data cannot be decoded ({error}): re-export it") from error
    return triangles, attributes


def meshopt_size(extension: Mapping[str, Any], max_count: int) -> int:
    """Return the size in bytes of what ``decode_meshopt`` will return, after a check of all that is declared.

    Args:
        extension: The JSON of EXT_meshopt_compression or KHR_meshopt_compression in a bufferView.
        max_count: Limit of its number of elements.

    Raises:
        ValueError: If it is malformed, or declares more than its data can hold.
    """
    mode = extension.get("mode")
    if not isinstance(mode, str) or mode not in _MOST_PER_BYTE:
        raise ValueError(f"its meshopt mode {short(mode)} is none of {', '.join(_MOST_PER_BYTE)}: re-export it")
    count = integer(extension, "count", high=max_count)
    stride = integer(extension, "byteStride", high=256)
    kind = extension.get("filter", "NONE")
    if not isinstance(kind, str) or kind not in _FILTERS or (mode != "ATTRIBUTES" and kind != "NONE"):
        raise ValueError(f"its meshopt filter {short(kind)} is unknown for {mode}: re-export it")
    strides = _FILTERS[kind] if mode == "ATTRIBUTES" else _INDEX_BYTES
    if stride not in strides or (mode == "TRIANGLES" and count % 3):
        raise ValueError(
            f"its meshopt data has {count} elements of {stride} bytes, which mode {mode} with filter {kind} does not "
            "allow: re-export it"
        )
    if count * stride > integer(extension, "byteLength") * _MOST_PER_BYTE[mode]:
        raise ValueError(f"its meshopt data declares {count:,} elements, more than it can hold: re-export it")
    return count * stride


def decode_meshopt(data: bytes, extension: Mapping[str, Any]) -> bytes:
    """Decode a compressed bufferView.

    Args:
        data: The compressed bytes.
        extension: The JSON of its extension, which ``meshopt_size`` has checked.

    Raises:
        ValueError: If the package meshopt is not installed, or the data is damaged.
    """
    if not extension["count"]:
        return b""
    remedy = (
        "decompress it with `npx @gltf-transform/cli copy IN.glb OUT.glb` (the extra needs Python 3.11 or later for it)"
    )
    meshopt = MESHOPT_PACKAGE.load("it uses meshopt compression, which", remedy)
    kind = extension.get("filter", "NONE")
    try:
        values = meshopt.decode_gltf_buffer(
            data, extension["count"], extension["byteStride"], extension["mode"], None if kind == "NONE" else kind
        )
    except MemoryError:
        raise
    except Exception as error:  # whatever the package raises for damaged data
        raise ValueError(f"its meshopt data cannot be decoded ({error}): re-export it") from error
    return values.tobytes()


class Ktx2Image:
    """One mip level of a KTX2 file: the largest that fits a limit, else the largest.

    The constructor checks every size that the header declares; only ``decode`` takes memory for pixels.

    Args:
        data: The bytes of the file.
        max_side: Longest side of the level in pixels, if the file has one so small.

    Attributes:
        width: Width of the level in pixels.
        height: Height of the level in pixels.

    Raises:
        ValueError: If it is not a two-dimensional texture in ETC1S or UASTC, or its header is damaged.
    """

    def __init__(self, data: bytes, max_side: int) -> None:
        if len(data) < _LEVELS_AT or not data.startswith(KTX2_MAGIC):
            raise ValueError("it is cut short within its header")
        width, height, depth, layers, faces, levels, scheme = struct.unpack_from("<7I", data, 20)
        if depth or layers > 1 or faces != 1 or not width or not height:
            raise ValueError(f"it is not one picture: {width}x{height}x{depth}, {layers} layers, {faces} faces")
        levels = max(levels, 1)
        if levels > max(width, height).bit_length() or _LEVELS_AT + 24 * levels > len(data):
            raise ValueError(f"its header declares {levels} levels for {width}x{height} pixels")
        self._data = data
        self._model = _color_model(data)
        if scheme not in _SCHEMES[self._model]:
            raise ValueError(f"its supercompression scheme {scheme} does not belong to Basis Universal")
        for level in range(levels):
            self._check_level(level, max(width >> level, 1), max(height >> level, 1))
        fitting = (level for level in range(levels) if max(width, height) >> level <= max_side)
        self._level = next(fitting, 0)
        self.width: int = max(width >> self._level, 1)
        self.height: int = max(height >> self._level, 1)

    def _check_level(self, level: int, width: int, height: int) -> None:
        offset, length, unpacked = struct.unpack_from("<3Q", self._data, _LEVELS_AT + 24 * level)
        if not length or offset + length > len(self._data):
            raise ValueError(f"its level {level} exceeds the file of {len(self._data)} bytes")
        size = -(-width // 4) * -(-height // 4) * _UASTC_BLOCK
        if self._model == _UASTC and unpacked != size:
            raise ValueError(f"its level {level} declares {unpacked} bytes, not {size}")

    def decode(self) -> np.ndarray:
        """Return the pixels [H, W, 4] uint8, row 0 at the top.

        Raises:
            ValueError: If opengl-basisu is not installed, or the data is damaged.
        """
        basisu = BASISU.load("KTX2", NO_KTX2)
        pixels = basisu.open(self._data).transcode("rgba8", self._level).data
        if pixels.shape != (self.height, self.width, 4):
            raise ValueError(f"it was decoded as {pixels.shape}")
        return pixels


def _color_model(data: bytes) -> int:
    """Return the color model of a KTX2 file's data format descriptor: ETC1S or UASTC."""
    vulkan_format = struct.unpack_from("<I", data, 12)[0]
    if vulkan_format:
        raise ValueError(f"it is in Vulkan's format {vulkan_format}, not in Basis Universal")
    offset, length = struct.unpack_from("<2I", data, 48)
    if length < 44 or offset + length > len(data):
        raise ValueError("its data format descriptor is damaged")
    model = data[offset + 12]
    if model not in _SCHEMES:
        raise ValueError(f"its color model {model} is neither ETC1S nor UASTC")
    return model
