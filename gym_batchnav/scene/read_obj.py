"""Wavefront OBJ scenes and their MTL materials into a SceneBuilder.

trimesh is not asked here: it takes relative (negative) indices from the end of the file instead of from the face, which
scrambles files that use them, and drops ``map_d``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gym_batchnav.color import srgb_to_linear
from gym_batchnav.scene.assemble import Part, SceneBuilder, Surface
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.mesh import CLAMP, MASK, OPAQUE, REPEAT

MAX_CORNERS = 10_000  # of one face
MAX_LINE_BYTES = 2**20

# Options of a texture statement and how many values follow each (at most three for -o, -s and -t).
_MAP_OPTIONS = {b"-blendu": 1, b"-blendv": 1, b"-bm": 1, b"-boost": 1, b"-cc": 1, b"-clamp": 1, b"-imfchan": 1}
_MAP_OPTIONS |= {b"-mm": 2, b"-o": 3, b"-s": 3, b"-t": 3, b"-texres": 1, b"-type": 1}


@dataclass(slots=True)
class _Group:
    """Corners of the triangles of one object in one material: rows of positions, rows of texture coordinates or -1."""

    positions: array[int] = field(default_factory=partial(array, "q"))
    uvs: array[int] = field(default_factory=partial(array, "q"))


@dataclass(slots=True)
class _Content:
    """What an OBJ file says, in its own order."""

    vertices: list[list[float]] = field(default_factory=list)
    uvs: list[list[float]] = field(default_factory=list)
    groups: dict[tuple[bytes, bytes], _Group] = field(default_factory=dict)
    libraries: list[bytes] = field(default_factory=list)
    num_skipped: int = 0


def read_obj(files: SceneFiles, builder: SceneBuilder) -> None:
    """Add an OBJ file to a builder: one object for each ``o``, or for each ``g`` where there is at most one ``o``.

    Polygons are cut into fans. OBJ knows no back faces, so every surface is double-sided. ``Kd`` counts as linear and
    is replaced by a texture, as Blender reads it; vertex colours count as sRGB.

    Args:
        files: The scene's files; the main one is an ``.obj``.
        builder: Gets the content.

    Raises:
        ValueError: the file is damaged.
    """
    content = _parse(files.main())
    surfaces = _surfaces(files, builder, content.libraries)
    vertices, colors = _split_colors(content.vertices)
    uvs = np.array([uv[:2] if len(uv) > 1 else [*uv, 0.0] for uv in content.uvs], np.float64).reshape(-1, 2)
    uvs[:, 1] = 1 - uvs[:, 1]
    uvs = np.concatenate([np.zeros((1, 2)), uvs])  # row 0 is for corners that have none
    objects: dict[bytes, list[Part]] = {}
    for (name, material), group in content.groups.items():
        surface = surfaces.get(material, Surface(double_sided=True))
        part = _part(builder, group, surface, vertices, uvs, colors)
        objects.setdefault(name, []).extend([part] if part is not None else [])
    for name, parts in objects.items():
        builder.add_object(name.decode(errors="replace") or files.path.stem, parts, np.eye(4))
    if content.num_skipped:
        files.warnings.append(f"{content.num_skipped} lines, points and curves were left out")


def _parse(data: bytes) -> _Content:
    content = _Content()
    lines = data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ").splitlines()
    longest = max(map(len, lines), default=0)
    if longest > MAX_LINE_BYTES:
        raise ValueError(f"it has a line of {longest:,} bytes, and {MAX_LINE_BYTES:,} are the limit: re-export it")
    object_word = b"o" if sum(line.startswith(b"o ") for line in lines) > 1 else b"g"
    name = material = b""
    group: _Group | None = None
    for line in lines:
        word, *values = line.split() or [b""]
        if word == b"v":
            content.vertices.append([float(value) for value in values])
        elif word == b"vt":
            content.uvs.append([float(value) for value in values])
        elif word == b"f":
            if group is None:
                group = content.groups.setdefault((name, material), _Group())
            _add_face(group, values, len(content.vertices), len(content.uvs))
        elif word == object_word:
            name, group = b" ".join(values), None
        elif word == b"usemtl":
            material, group = b" ".join(values), None
        elif word == b"mtllib":
            content.libraries.append(line.split(None, 1)[-1].strip())
        elif word in (b"l", b"p", b"curv", b"surf"):
            content.num_skipped += 1
    return content


def _add_face(group: _Group, corners: list[bytes], num_vertices: int, num_uvs: int) -> None:
    """Append a polygon as a fan; an index counts from 1, a negative one backwards from the face."""
    if len(corners) > MAX_CORNERS:
        raise ValueError(f"it has a face of {len(corners):,} corners, and {MAX_CORNERS:,} are the limit: cut it up")
    positions, uvs = [], []
    for corner in corners:
        if corner.startswith(b"#"):
            break
        parts = corner.split(b"/")
        position = int(parts[0])
        position += num_vertices if position < 0 else -1
        uv = int(parts[1]) if len(parts) > 1 and parts[1] else 0
        uv += num_uvs if uv < 0 else -1
        if not 0 <= position < num_vertices or not -1 <= uv < num_uvs:
            raise ValueError(f"a face names corner {corner.decode(errors='replace')!r}, which does not exist before it")
        positions.append(position)
        uvs.append(uv)
    for last in range(2, len(positions)):
        group.positions.extend((positions[0], positions[last - 1], positions[last]))
        group.uvs.extend((uvs[0], uvs[last - 1], uvs[last]))


def _split_colors(rows: list[list[float]]) -> tuple[np.ndarray, np.ndarray | None]:
    """The vertices [V, 3] float64, and their colours [V, 4] uint8 linear where all lines have six numbers."""
    widths = {len(row) for row in rows}
    if rows and min(widths) < 3:
        raise ValueError("it has a vertex of fewer than three coordinates: the file is damaged")
    vertices = np.array([row[:3] for row in rows], np.float64).reshape(-1, 3)
    if not widths or min(widths) < 6:
        return vertices, None
    return vertices, linear_colors(np.array([row[3:6] for row in rows]))


def linear_colors(srgb: np.ndarray) -> np.ndarray:
    """Colours [V, 3 or 4] in sRGB, 0 to 1, as linear [V, 4] uint8; alpha is kept."""
    srgb = np.clip(np.nan_to_num(srgb), 0, 1)
    colors = np.full((len(srgb), 4), 255, np.uint8)
    colors[:, :3] = np.round(srgb_to_linear(srgb[:, :3]) * 255)
    colors[:, 3:] = np.round(srgb[:, 3:4] * 255) if srgb.shape[1] == 4 else 255
    return colors


def _part(
    builder: SceneBuilder,
    group: _Group,
    surface: Surface,
    vertices: np.ndarray,
    uvs: np.ndarray,
    colors: np.ndarray | None,
) -> Part | None:
    """The part of a group, with one vertex for each different pair of position and row of ``uvs``, after the first."""
    positions, corners_uv = np.array(group.positions, np.int64), np.array(group.uvs, np.int64)
    if surface.image < 0:
        corners_uv[:] = -1
    pairs, triangles = np.unique(positions * len(uvs) + corners_uv + 1, return_inverse=True)
    rows, uv_rows = np.divmod(pairs, len(uvs))
    return builder.part(
        vertices[rows],
        triangles.reshape(-1, 3),
        surface,
        uvs[uv_rows] if surface.image >= 0 else None,
        colors[rows] if colors is not None else None,
    )


def _surfaces(files: SceneFiles, builder: SceneBuilder, libraries: list[bytes]) -> dict[bytes, Surface]:
    """The materials of the libraries that an OBJ file names, by name."""
    statements: dict[bytes, dict[bytes, list[bytes]]] = {}
    seen: set[int] = set()
    for library in dict.fromkeys(libraries):
        try:
            text = files.beside(library.decode(errors="replace"), any_case=True)
        except OSError:
            name = library.decode(errors="replace")
            files.warnings.append(f"The material file {name!r} is missing: its materials are drawn white")
            continue
        if id(text) in seen:  # files are kept, so one by another name is the same object
            continue
        seen.add(id(text))
        current: dict[bytes, list[bytes]] = {}
        for line in text.splitlines():
            word, *values = line.split(b"#")[0].split() or [b""]
            if word == b"newmtl":
                current = statements.setdefault(b" ".join(values), {})
            else:
                current[word.lower()] = values
    images: dict[tuple[bytes, bytes], int] = {}
    return {name: _surface(files, builder, material, images) for name, material in statements.items()}


def _surface(
    files: SceneFiles,
    builder: SceneBuilder,
    material: dict[bytes, list[bytes]],
    images: dict[tuple[bytes, bytes], int],
) -> Surface:
    red, green, blue = _floats(material.get(b"kd", []), (1.0, 1.0, 1.0))
    (transparency,) = _floats(material.get(b"tr", []), (0.0,))
    (alpha,) = _floats(material.get(b"d", []), (1.0 - transparency,))
    picture, clamped = _map_file(material.get(b"map_kd", []))
    mask, _ = _map_file(material.get(b"map_d", []))
    if picture and (picture, mask) not in images:
        data, label = _beside(files, picture), picture.decode(errors="replace")
        images[picture, mask] = builder.add_image(data, label, _beside(files, mask) if mask else None)
    image = images[picture, mask] if picture else -1
    if image >= 0:
        red = green = blue = 1.0
    return Surface(
        base_color=(red, green, blue, alpha),
        image=image,
        alpha_mode=MASK if alpha < 1 or (mask and image >= 0) else OPAQUE,
        double_sided=True,
        wrap=(CLAMP, CLAMP) if clamped and image >= 0 else (REPEAT, REPEAT),
    )


def _map_file(values: list[bytes]) -> tuple[bytes, bool]:
    """The file that a texture statement names, empty for none, and whether it clamps."""
    clamped = False
    while values and values[0] in _MAP_OPTIONS:
        option, count = values[0], 1
        while count <= _MAP_OPTIONS[option] and count < len(values) - 1 and (count == 1 or _is_number(values[count])):
            count += 1
        clamped |= option == b"-clamp" and values[1:2] == [b"on"]
        values = values[count:]
    return b" ".join(values), clamped


def _beside(files: SceneFiles, name: bytes) -> bytes | None:
    try:
        return files.beside(name.decode(errors="replace"), any_case=True)
    except OSError:
        return None


def _floats(values: list[bytes], default: tuple[float, ...]) -> tuple[float, ...]:
    """As many numbers, between 0 and 1, as in ``default``; ``default`` itself where the values are no such numbers."""
    found = [min(max(float(value), 0.0), 1.0) for value in values if _is_number(value)]
    return tuple(found[: len(default)]) if len(found) >= len(default) else default


def _is_number(value: bytes) -> bool:
    try:
        return np.isfinite(float(value))
    except ValueError:
        return False
