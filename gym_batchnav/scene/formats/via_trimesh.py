"""Reading of PLY, STL and OFF files by trimesh, after their headers have been checked against their content."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from gym_batchnav.scene.builder import MAX_TRIANGLES, Material, SceneBuilder
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.color import linear_colors
from gym_batchnav.scene.files import SceneFiles

_MAX_HEADER_BYTES = 2**16
_MAX_TEXT_BYTES = 2**27  # trimesh makes several copies
_MAX_TEXT_ROWS = 1_500_000  # of PLY and OFF; trimesh takes 4 us and 350 bytes for each
_BLOCK = 2**20  # bytes
_MAX_SOLIDS = 2000  # trimesh's time for an STL text grows with the square of their number
_SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4, "double": 8}
_SIZES |= {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4, "float64": 8}


def read_with_trimesh(files: SceneFiles, builder: SceneBuilder) -> None:
    """Add a PLY, STL or OFF file, one object per mesh; vertex colours count as sRGB.

    Args:
        files: The scene's files; the main one ends in ``.ply``, ``.stl`` or ``.off``.
        builder: Gets the content.

    Raises:
        ValueError: If the file is damaged.
    """
    import trimesh  # imported late, since it imports Embree's bindings, which only a renderer needs

    data = files.main()
    suffix = files.path.suffix.lower()
    options: dict[str, Any] = {"process": False}
    if suffix == ".ply":
        data = _checked_ply(data)
        options["skip_materials"] = True
    elif suffix == ".stl":
        _check_stl(data)
    else:
        data = _checked_off(data)
    try:
        loaded = trimesh.load_scene(io.BytesIO(data), file_type=suffix[1:], **options)
    except Exception as error:  # trimesh raises errors of any kind for damaged files
        reason = f"{type(error).__name__}: {error}"[:200]
        raise ValueError(f"it cannot be read ({reason}): re-export it as triangles") from error
    image = _ply_image(files, builder, data) if suffix == ".ply" else -1
    for node in loaded.graph.nodes_geometry:
        matrix, key = loaded.graph[node]
        mesh: Any = loaded.geometry[key]
        if not isinstance(mesh, trimesh.Trimesh):
            files.warnings.append("A cloud of points was left out")
            continue
        object_name = files.path.stem if str(key).startswith("geometry") else str(key)
        _add_mesh(builder, object_name, mesh, matrix, image)


def read_object_ply(data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the vertices [V, 3] float64, triangles [T, 3] int64 and object numbers [T] int64 of a PLY file.

    Every face has a property ``object_id``; all faces have the same number of corners, and polygons become fans.

    Raises:
        ValueError: If the file is damaged or has no ``object_id``.
    """
    from trimesh.exchange.ply import load_ply

    data = _checked_ply(data)
    try:
        loaded = load_ply(io.BytesIO(data), fix_texture=False, skip_materials=True)
        vertices = np.asarray(loaded["vertices"], np.float64)
        polygons = np.asarray(loaded["faces"], np.int64)
        numbers = np.asarray(loaded["metadata"]["_ply_raw"]["face"]["data"]["object_id"], np.int64).ravel()
    except Exception as error:  # trimesh raises errors of any kind for damaged files
        reason = f"{type(error).__name__}: {error}"[:200]
        raise ValueError(f"its vertices, faces or their object_id cannot be read: {reason}") from error
    if polygons.ndim != 2 or len(polygons) != len(numbers) or vertices.ndim != 2:
        raise ValueError("its faces differ in their number of corners: triangulate it")
    if polygons.size and not 0 <= polygons.min() <= polygons.max() < len(vertices):
        raise ValueError("its faces refer to vertices that do not exist")
    num_triangles = max(0, polygons.shape[1] - 2)
    if len(polygons) * num_triangles > MAX_TRIANGLES:
        raise ValueError(f"it has more than {MAX_TRIANGLES:,} triangles: simplify it")
    corner = np.arange(1, num_triangles + 1)
    fan = np.stack([np.zeros_like(corner), corner, corner + 1], axis=1)
    return vertices, polygons[:, fan].reshape(-1, 3), np.repeat(numbers, num_triangles)


def _add_mesh(builder: SceneBuilder, name: str, mesh: Any, matrix: np.ndarray, image: int) -> None:
    """Add one of trimesh's meshes as an object with texture ``image``, -1 for none."""
    visual: Any = mesh.visual
    vertices = np.asarray(mesh.vertices)
    triangles = np.asarray(mesh.faces)
    if len(triangles) and not 0 <= triangles.min() <= triangles.max() < len(vertices):
        raise ValueError("its triangles refer to vertices that do not exist: the file is damaged, re-export it")
    uvs = getattr(visual, "uv", None)
    colors = None
    if visual.kind == "face":
        vertices = vertices[triangles.ravel()]
        triangles = np.arange(3 * len(triangles)).reshape(-1, 3)
        colors = linear_colors(np.repeat(visual.face_colors, 3, axis=0) / 255)
    elif visual.kind == "vertex":
        colors = linear_colors(visual.vertex_colors / 255)
    if uvs is not None and image >= 0:
        uvs = np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1)
    material = Material(image=image if uvs is not None else -1, double_sided=True)
    part = builder.part(vertices, triangles, material, uvs if image >= 0 else None, colors)
    builder.add_object(SceneObject.named(name), [part] if part else [], matrix)


def _ply_image(files: SceneFiles, builder: SceneBuilder, data: bytes) -> int:
    """Return the builder's number of the texture in a PLY header's ``comment TextureFile``, -1 for none."""
    header = data[: data.find(b"end_header")]
    match = re.search(rb"^comment\s+TextureFile\s+(.+?)\s*$", header, re.MULTILINE)
    if not match:
        return -1
    name = match[1].decode(errors="replace")
    return builder.add_image(files.optional(name), name)


def _checked_ply(data: bytes) -> bytes:
    """Return a PLY file with edges renamed, since trimesh takes time for them by the square of their number.

    Raises:
        ValueError: If it is too large, or its header declares more than the file holds.
    """
    end = data.find(b"end_header", 0, _MAX_HEADER_BYTES)
    if end < 0:
        raise ValueError("its header has no end: the file is damaged or not a PLY file, re-export it")
    body = data[end + len(b"end_header\n") :]
    is_text = b"format ascii" in data[:end]
    row_bytes: list[int] = []
    counts: list[int] = []
    for line in data[:end].decode("ascii", errors="replace").splitlines():
        word, *values = line.split() or [""]
        if word == "element":
            if len(values) != 2 or not values[1].isdecimal():
                raise ValueError(f"its header has the line {line.strip()!r}: the file is damaged, re-export it")
            counts.append(int(values[1]))
            row_bytes.append(0)
        elif word == "property" and values and row_bytes:
            row_bytes[-1] += _SIZES.get(values[1] if values[0] == "list" else values[0], 1)
    num_rows = sum(counts)
    num_bytes = sum(count * max(2 if is_text else size, 1) for count, size in zip(counts, row_bytes, strict=True))
    if num_bytes > len(body) + 2:
        raise ValueError(
            f"its header declares {num_rows:,} rows, more than fit into {len(body):,} bytes: it is cut short, copy or "
            "download it again"
        )
    if is_text:
        _check_size(body, num_rows)
        if re.search(rb"[^\t\n\r\x20-\x7e]", body):
            raise ValueError("it has characters that are not text: the file is damaged, re-export it")
        if body.count(b"\n") > num_rows + 1000:
            raise ValueError(f"it has far more lines than the {num_rows:,} of its header: re-export it")
    header = re.sub(rb"^(\s*element\s+)edge\b", rb"\1line", data[:end], flags=re.MULTILINE)
    return data if header == data[:end] else header + data[end:]


def _check_stl(data: bytes) -> None:
    """Raise ValueError for an STL text that would take trimesh too much time or memory."""
    if len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little"):
        return
    _check_size(data)
    if data.lower().count(b"endsolid") > _MAX_SOLIDS:
        raise ValueError(f"it has more than {_MAX_SOLIDS} solids: join them, or save it as GLB")


def _checked_off(data: bytes) -> bytes:
    """Return an OFF text without comments and blank lines, for which trimesh's expressions take very long.

    Raises:
        ValueError: If it is too large, or its header declares more lines than follow.
    """
    _check_size(data)
    kept: list[bytes] = []
    start = 0
    while start < len(data):  # in blocks, since each line takes a hundred bytes of memory
        end = data.find(b"\n", start + _BLOCK) + 1 or len(data)
        block = re.sub(rb"#[^\n]*", b"", data[start:end])
        kept += filter(None, [b"\n".join(filter(None, map(bytes.strip, block.splitlines())))])
        start = end
    text = b"\n".join(kept)
    header = re.match(rb"(?:C?OFF)\s+(\d{1,12})\s+(\d{1,12})(?:\s|$)", text)
    if not header:
        raise ValueError("it does not begin with OFF and its counts: re-export it")
    num_rows = int(header[1]) + int(header[2])
    num_lines = text.count(b"\n", header.start(2))
    if num_rows > num_lines:
        raise ValueError(f"its header declares {num_rows:,} lines, but {num_lines:,} follow: copy or download it again")
    _check_size(text, num_rows)
    return text


def _check_size(text: bytes, num_rows: int = 0) -> None:
    if len(text) > _MAX_TEXT_BYTES or num_rows > _MAX_TEXT_ROWS:
        size = f"it has {len(text):,} bytes of text and {num_rows:,} vertices and faces"
        limits = f"the limits are {_MAX_TEXT_BYTES:,} and {_MAX_TEXT_ROWS:,}"
        raise ValueError(f"{size}, {limits}, because text takes long to read: save it as GLB or in binary")
