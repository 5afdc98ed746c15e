"""BufferViews that glTF files hold compressed by meshoptimizer, decoded by meshopt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym_batchnav.scene.json_values import short, whole
from gym_batchnav.system.extras import OptionalPackage

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
# The most bytes that a byte of compressed data can stand for, by mode: four attribute bytes of 256 vertices (in
# version 1 of the codec), three indices of 4 bytes, one index of 4 bytes.
_MOST_PER_BYTE = {"ATTRIBUTES": 1024, "TRIANGLES": 12, "INDICES": 4}
_FILTERS = {"NONE": range(4, 257, 4), "OCTAHEDRAL": (4, 8), "QUATERNION": (8,), "EXPONENTIAL": range(4, 257, 4)}
_KHR_FILTERS = {"COLOR": (4, 8)}
_INDEX_BYTES = (2, 4)
MESHOPT_PACKAGE = OptionalPackage("meshopt", "meshopt", "formats")


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
    count = whole(extension, "count", high=max_count)
    stride = whole(extension, "byteStride", high=256)
    kind = extension.get("filter", "NONE")
    filters = {**_FILTERS, **_KHR_FILTERS}
    if not isinstance(kind, str) or kind not in filters or (mode != "ATTRIBUTES" and kind != "NONE"):
        raise ValueError(f"its meshopt filter {short(kind)} is unknown for {mode}: re-export it")
    strides = filters[kind] if mode == "ATTRIBUTES" else _INDEX_BYTES
    if stride not in strides or (mode == "TRIANGLES" and count % 3):
        raise ValueError(f"its meshopt data has {count} elements of {stride} bytes in {mode}, {kind}: re-export it")
    if count * stride > whole(extension, "byteLength") * _MOST_PER_BYTE[mode]:
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
