"""Triangles and object numbers of binary PLY files, in which every face has a property ``object_id``.

trimesh triangulates polygons but forgets the properties of faces.
"""

from __future__ import annotations

import re

import numpy as np

from gym_batchnav.scene.builder import MAX_TRIANGLES

MAX_HEADER = 2**16  # bytes
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDER = {"binary_little_endian": "<", "binary_big_endian": ">"}
_CORNERS = ("vertex_indices", "vertex_index")
_NUMBER = "object_id"


def read_object_ply(data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the vertices [V, 3] float64, triangles [T, 3] int64 and object numbers [T] int64 of a PLY file.

    All faces have the same number of corners; polygons become fans.

    Raises:
        ValueError: If the file is damaged, is not binary, or has no ``object_id``.
    """
    order, elements, start = _header(data)
    found: dict[str, np.ndarray] = {}
    for name, count, properties in elements:
        row = _row_type(data, start, order, name, count, properties)
        if count * row.itemsize > len(data) - start:
            raise ValueError(f"it ends before its {count:,} {name} rows")
        found[name] = np.frombuffer(data, row, count, start)
        start += count * row.itemsize
        if {"vertex", "face"} <= found.keys():
            break
    vertex = found.get("vertex")
    face = found.get("face")
    corners = next((key for key in _CORNERS if face is not None and key in (face.dtype.names or ())), None)
    if vertex is None or face is None or corners is None or not {"x", "y", "z"} <= set(vertex.dtype.names or ()):
        raise ValueError("it has no vertices x, y, z or no faces with vertex_indices")
    if _NUMBER not in (face.dtype.names or ()):
        raise ValueError(f"its faces have no property {_NUMBER}")
    sizes = face[f"{corners} count"]
    width = face[corners].shape[1]
    if len(face) and (sizes != width).any():
        raise ValueError("its faces differ in their number of corners: triangulate it")
    polygons = face[corners].astype(np.int64)
    if polygons.size and not 0 <= polygons.min() <= polygons.max() < len(vertex):
        raise ValueError("its faces refer to vertices that do not exist")
    if len(polygons) * max(0, width - 2) > MAX_TRIANGLES:
        raise ValueError(f"it has more than {MAX_TRIANGLES:,} triangles: simplify it")
    fans = [polygons[:, [0, corner, corner + 1]] for corner in range(1, width - 1)]
    triangles = np.stack(fans, axis=1).reshape(-1, 3) if fans else np.zeros((0, 3), np.int64)
    numbers = np.repeat(face[_NUMBER].astype(np.int64), max(0, width - 2))
    vertices = np.stack([vertex[axis] for axis in "xyz"], axis=1).astype(np.float64)
    return vertices, triangles, numbers


def _header(data: bytes) -> tuple[str, list[tuple[str, int, list[list[str]]]], int]:
    """Return the byte order, the elements (name, count, words of their properties) and where the rows begin."""
    end = re.search(rb"\nend_header\r?\n", data[:MAX_HEADER])
    if not data.startswith(b"ply") or end is None:
        raise ValueError("it has no PLY header")
    order = ""
    elements: list[tuple[str, int, list[list[str]]]] = []
    for line in data[: end.start()].decode("ascii", errors="replace").splitlines():
        words = line.split()
        if words[:1] == ["format"] and len(words) > 1:
            order = _ORDER.get(words[1], "")
        elif words[:1] == ["element"] and len(words) == 3 and words[2].isdigit():
            elements.append((words[1], int(words[2]), []))
        elif words[:1] == ["property"] and elements:
            elements[-1][2].append(words[1:])
    if not order:
        raise ValueError("it is not binary: save it as a binary PLY file")
    return order, elements, end.end()


def _row_type(data: bytes, start: int, order: str, name: str, count: int, properties: list[list[str]]) -> np.dtype:
    """Return the type of an element's rows; lists have the length that they have in the first row."""
    fields: list[tuple[str, str, int] | tuple[str, str]] = []
    for words in properties:
        is_list = words[:1] == ["list"]
        known = all(word in _TYPES for word in words[is_list:-1])
        if len(words) == 2 and known and not is_list:
            fields.append((words[1], order + _TYPES[words[0]]))
        elif len(words) == 4 and is_list and known and not words[1].startswith(("float", "double")):
            size = order + _TYPES[words[1]]
            fields.append((f"{words[3]} count", size))
            before = np.dtype(fields)
            if count and start + before.itemsize > len(data):
                raise ValueError(f"it ends before its {count:,} {name} rows")
            length = int(np.frombuffer(data, before, 1, start)[f"{words[3]} count"][0]) if count else 0
            if not 0 <= length <= 64:
                raise ValueError(f"a face has {length} corners")
            fields.append((words[3], order + _TYPES[words[2]], length))
        else:
            raise ValueError(f"its property {' '.join(words)[:80]!r} is unknown")
    names = [field[0] for field in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"a property of its {name} is listed twice")
    return np.dtype([field if len(field) == 2 else (field[0], field[1], (field[2],)) for field in fields])
