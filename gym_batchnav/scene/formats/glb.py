"""The containers of glTF: the chunks of GLB files, and data URIs."""

from __future__ import annotations

import base64
import binascii
import struct
from urllib.parse import unquote_to_bytes

GLB_MAGIC = b"glTF"
CHUNK_JSON = 0x4E4F534A
CHUNK_BIN = 0x004E4942


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
