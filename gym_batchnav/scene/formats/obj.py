"""Reading of Wavefront OBJ scenes and their MTL materials.

trimesh is not used here: it counts relative (negative) indices from the end of the file instead of the face, which
scrambles files that use them, and drops ``map_d``.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from gym_batchnav.scene.builder import MAX_PARTS, TOO_MANY_PARTS, Material, Part, SceneBuilder, finite_uvs
from gym_batchnav.scene.color import linear_colors
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats import obj_text
from gym_batchnav.scene.scene import CLAMP, MASK, OPAQUE, REPEAT

MAX_STATEMENTS = 1_000_000  # other than vertices and faces
MAX_STATEMENT_BYTES = 2**16
MAX_LIBRARIES = 1000  # of materials, and their total size
MAX_LIBRARY_BYTES = 2**23
# Limit of triangles: a constant allowance plus a rate per byte. A quad and its vertex take at least 18 bytes.
FREE_TRIANGLES = 2**18
TRIANGLES_PER_BYTE = 0.125

_REASONS = {
    obj_text.NO_NUMBER: "it has words that are not numbers: the file is damaged, re-export it",
    obj_text.TOO_FEW: "it has too few coordinates: the file is damaged, re-export it",
    obj_text.NO_CORNER: "it refers to a corner that is not defined before it: the file is damaged, re-export it",
    obj_text.TOO_MANY: f"a face may have at most {obj_text.MAX_CORNERS:,} corners: split it",
}
# Options of a texture statement with the number of values after each (at most three for -o, -s and -t).
_MAP_OPTIONS = {b"-blendu": 1, b"-blendv": 1, b"-bm": 1, b"-boost": 1, b"-cc": 1, b"-clamp": 1, b"-imfchan": 1}
_MAP_OPTIONS |= {b"-mm": 2, b"-o": 3, b"-s": 3, b"-t": 3, b"-texres": 1, b"-type": 1}
_NEXT_LIBRARY = re.compile(rb"(?<=\.mtl)\s+(?=\S)", re.IGNORECASE)  # names may contain spaces


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """The content of an OBJ file, in the order of the file."""

    vertices: np.ndarray  # [V, 3] float64
    colors: np.ndarray | None  # [V, 3] float64, sRGB; None unless all vertices have them
    uvs: np.ndarray  # [U, 2] float64, v = 0 at the bottom
    first_corner: np.ndarray  # [F + 1] int64
    corner_vertex: np.ndarray  # [C] int32, rows of vertices
    corner_uv: np.ndarray  # [C] int32, rows of uvs or -1; [0] if there are none
    statements: list[tuple[bytes, int]]  # all other lines, with the number of faces before each
    num_skipped: int  # lines and points


@dataclass(frozen=True, slots=True, eq=False)
class _FaceCorners:
    """The corners of all faces, and the vertices that they refer to."""

    rows: np.ndarray  # [C] int32, rows of the other arrays
    vertices: np.ndarray  # [P, 3] float64
    colors: np.ndarray | None  # [P, 4] uint8, linear
    uvs: np.ndarray | None  # [P, 2] float32, v = 0 at the top


class _Map(NamedTuple):
    """A texture statement; texture coordinates with v = 0 at the bottom are scaled, then moved."""

    file: bytes = b""  # empty for none
    clamps: bool = False
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)


class _Look(NamedTuple):
    """A material and the statement of its texture."""

    material: Material = Material(double_sided=True)
    map: _Map = _Map()


def read_obj(files: SceneFiles, builder: SceneBuilder) -> None:
    """Add an OBJ file to a builder: one object per ``o``, or per ``g`` if there is at most one ``o``.

    Polygons are split into fans. OBJ has no back faces, so every material is double-sided. ``Kd`` counts as linear and
    is replaced by a texture, as Blender reads it; vertex colours count as sRGB.

    Args:
        files: The scene's files; the main one is an ``.obj``.
        builder: The builder that receives the content.

    Raises:
        ValueError: If the file is damaged, or expands to far more than its size justifies.
    """
    text = _read(files.main())
    groups, libraries, num_curves = _groups(text)
    looks = _looks(files, builder, libraries, {name for _, name in groups})
    plain = _FaceCorners(
        text.corner_vertex, text.vertices, None if text.colors is None else linear_colors(text.colors), None
    )
    textured = _pairs(text, plain) if any(look.material.image >= 0 for look in looks.values()) else plain
    objects: dict[bytes, list[Part]] = {}
    for (name, material_name), ends in groups.items():
        look = looks.get(material_name, _Look())
        part = _part(builder, text, ends, look, textured if look.material.image >= 0 else plain)
        objects.setdefault(name, []).extend([part] if part is not None else [])
    for name, parts in objects.items():
        builder.add_object(name.decode(errors="replace") or files.path.stem, parts, np.eye(4))
    if text.num_skipped + num_curves:
        files.warnings.append(f"{text.num_skipped + num_curves} lines, points and curves were left out")


def _read(data: bytes) -> _Text:
    """Parse the bytes of a file; limits are checked before memory is allocated."""
    as_written = data
    data = data.replace(b"\\\r\n", b"  ").replace(b"\\\n", b" ")  # continued lines become one
    text = np.frombuffer(data, np.uint8)
    counts = np.zeros(8, np.int64)
    obj_text.count_lines(text, counts)
    num_vertices, num_colored, num_uvs, num_faces, num_corners, num_triangles, num_skipped, num_others = counts.tolist()
    if num_triangles > FREE_TRIANGLES + TRIANGLES_PER_BYTE * len(data):
        size = f"{num_triangles:,} triangles from {len(data):,} bytes"
        raise ValueError(f"its faces expand to {size}, more than any real mesh: split its faces of many corners")
    if num_others > MAX_STATEMENTS:
        raise ValueError(
            f"it has {num_others:,} lines other than vertices and faces, the limit is {MAX_STATEMENTS:,}: "
            "join its groups, or save it as GLB"
        )
    vertices = np.empty((num_vertices, 3))
    uvs = np.empty((num_uvs, 2))
    colors = np.empty((num_vertices if num_colored == num_vertices else 0, 3))
    first_corner = np.empty(num_faces + 1, np.int64)
    corner_vertex = np.empty(num_corners, np.int32)
    corner_uv = np.empty(num_corners if num_uvs else 0, np.int32)
    places = np.empty((num_others, 3), np.int64)
    wrong, line = obj_text.read_lines(text, vertices, colors, uvs, first_corner, corner_vertex, corner_uv, places)
    if wrong != obj_text.FINE:
        shown = data[line : line + 60].splitlines()[0].decode(errors="replace")
        raise ValueError(f"its line {_line_number(as_written, line):,} is {shown!r}: {_REASONS[wrong]}")
    longest = int((places[:, 1] - places[:, 0]).max(initial=0))
    if longest > MAX_STATEMENT_BYTES:
        raise ValueError(f"it has a line of {longest:,} bytes, the limit is {MAX_STATEMENT_BYTES:,}: re-export it")
    statements = [(data[start:end], num_before) for start, end, num_before in places.tolist()]
    return _Text(
        vertices, colors if len(colors) else None, uvs, first_corner, corner_vertex, corner_uv, statements, num_skipped
    )


def _line_number(as_written: bytes, at: int) -> int:
    """Return the line number, from 1, of byte ``at`` in the text with joined lines (one byte shorter each)."""
    for continuation in re.finditer(rb"\\\r?\n", as_written):
        if continuation.start() >= at:
            break
        at += 1
    return 1 + len(re.findall(rb"\r\n?|\n", as_written[:at]))


def _groups(text: _Text) -> tuple[dict[tuple[bytes, bytes], array[int]], list[bytes], int]:
    """Group faces by object and material, and find the material libraries.

    Returns:
        By object and material, the first face of each run of faces and the face after its last; the libraries' names;
        the number of curves.
    """
    object_word = b"o" if sum(line.startswith(b"o ") for line, _ in text.statements) > 1 else b"g"
    groups: dict[tuple[bytes, bytes], array[int]] = {}
    libraries: list[bytes] = []
    name = b""
    material = b""
    num_curves = 0
    first = 0
    for line, num_before in [*text.statements, (b"", len(text.first_corner) - 1)]:
        word, *values = line.split() or [b""]
        if word in (object_word, b"usemtl", b""):
            if num_before > first:
                groups.setdefault((name, material), array("q")).extend((first, num_before))
                if len(groups) > MAX_PARTS:
                    raise ValueError(TOO_MANY_PARTS)
            first = num_before
        if word == object_word:
            name = b" ".join(values)
        elif word == b"usemtl":
            material = _name(values)
        elif word == b"mtllib":
            libraries.append(line.split(None, 1)[-1].strip())
        elif word in (b"curv", b"surf"):
            num_curves += 1
    return groups, libraries, num_curves


def _pairs(text: _Text, plain: _FaceCorners) -> _FaceCorners:
    """Return the corners with one row per distinct pair of position and texture coordinates."""
    uvs = np.concatenate([np.zeros((1, 2)), text.uvs * [1, -1] + [0, 1]])  # row 0 is for corners without any
    keys = text.corner_vertex.astype(np.int64) * len(uvs)
    if len(text.corner_uv):
        keys += text.corner_uv + 1
    pairs, rows = np.unique(keys, return_inverse=True)
    of_vertex, of_uv = np.divmod(pairs, len(uvs))
    return _FaceCorners(
        rows.astype(np.int32),
        plain.vertices[of_vertex],
        None if plain.colors is None else plain.colors[of_vertex],
        uvs.astype(np.float32)[of_uv],
    )


def _part(builder: SceneBuilder, text: _Text, ends: array[int], look: _Look, corners: _FaceCorners) -> Part | None:
    """Return the part of runs of faces; ``ends`` holds the first face of each run and the face after its last."""
    spans = np.array(ends, np.int64).reshape(-1, 2)
    num_corners = (text.first_corner[spans[:, 1]] - text.first_corner[spans[:, 0]]).sum()
    triangles = np.empty((num_corners - 2 * (spans[:, 1] - spans[:, 0]).sum(), 3), np.int32)
    obj_text.cut_fans(text.first_corner, spans, corners.rows, triangles)
    part = builder.part(corners.vertices, triangles, look.material, corners.uvs, corners.colors)
    if part is None or part.uvs is None or look.map[2:] == _Map()[2:]:
        return part
    (_, scale), (right, up) = look.map.scale, look.map.offset
    with np.errstate(over="ignore", invalid="ignore"):
        uvs = part.uvs * np.array(look.map.scale) + (right, 1 - scale - up)  # v = 0 is at the top here
    return replace(part, uvs=finite_uvs(uvs))


def _looks(files: SceneFiles, builder: SceneBuilder, libraries: list[bytes], used: set[bytes]) -> dict[bytes, _Look]:
    """Return the used materials of the libraries of an OBJ file, by name."""
    statements: dict[bytes, dict[bytes, list[bytes]]] = {}
    num_bytes = 0
    waiting = list(dict.fromkeys(libraries))
    for library in waiting:
        if len(waiting) > MAX_LIBRARIES:
            raise ValueError(f"it names more than {MAX_LIBRARIES:,} material files: join them")
        try:
            text = files.beside(library.decode(errors="replace"), any_case=True, max_bytes=MAX_LIBRARY_BYTES)
        except OSError:
            several = dict.fromkeys(_NEXT_LIBRARY.split(library))  # of one line
            waiting += [name for name in several if name not in waiting]
            if len(several) == 1:
                missing = library.decode(errors="replace")
                files.warnings.append(f"The material file {missing!r} is missing: its materials become white")
            continue
        num_bytes += len(text)
        if num_bytes > MAX_LIBRARY_BYTES:
            raise ValueError(f"its materials take more than {MAX_LIBRARY_BYTES:,} bytes: remove the unused ones")
        current: dict[bytes, list[bytes]] = {}
        for line in text.splitlines():
            word, *values = line.split() or [b""]
            if word == b"newmtl":
                name = _name(values)
                current = statements.setdefault(name, {}) if name in used else {}
            else:
                current[word.lower()] = list(takewhile(lambda value: not value.startswith(b"#"), values))
    images: dict[tuple[bytes, bytes], int] = {}
    return {name: _look(files, builder, found, images) for name, found in statements.items()}


def _name(words: list[bytes]) -> bytes:
    """Return the name of a material, such as ``Material #25``; a lone ``#`` begins a comment."""
    return b" ".join(takewhile(lambda word: word != b"#", words))


def _look(
    files: SceneFiles,
    builder: SceneBuilder,
    statements: dict[bytes, list[bytes]],
    images: dict[tuple[bytes, bytes], int],
) -> _Look:
    """Make a material from its statements in an MTL file, by word; ``images`` caches the textures that were read."""
    red, green, blue = _floats(statements.get(b"kd", []), (1.0, 1.0, 1.0))
    (transparency,) = _floats(statements.get(b"tr", []), (0.0,))
    (alpha,) = _floats(statements.get(b"d", []), (1.0 - transparency,))
    texture = _map(statements.get(b"map_kd", []))
    picture = texture.file
    mask = _map(statements.get(b"map_d", [])).file
    if picture and (picture, mask) not in images:
        label = picture.decode(errors="replace")
        data = files.optional(label)
        images[picture, mask] = builder.add_image(
            data, label, files.optional(mask.decode(errors="replace")) if mask else None
        )
    image = images[picture, mask] if picture else -1
    if image >= 0:
        red = green = blue = 1.0
    material = Material(
        base_color=(red, green, blue, alpha),
        image=image,
        alpha_mode=MASK if alpha < 1 or (mask and image >= 0) else OPAQUE,
        double_sided=True,
        wrap=(CLAMP, CLAMP) if texture.clamps and image >= 0 else (REPEAT, REPEAT),
    )
    return _Look(material, texture)


def _map(values: list[bytes]) -> _Map:
    """Parse the words of a texture statement after its name."""
    clamps = False
    placed = {b"-s": (1.0, 1.0), b"-o": (0.0, 0.0)}
    while values and values[0] in _MAP_OPTIONS:
        option = values[0]
        count = 1
        while count <= _MAP_OPTIONS[option] and count < len(values) - 1 and (count == 1 or _is_number(values[count])):
            count += 1
        clamps |= option == b"-clamp" and values[1:2] == [b"on"]
        if option in placed:
            found = [float(value) for value in values[1:count] if _is_number(value)][:2]
            u, v = (*found, *placed[option][len(found) :])
            placed[option] = (u, v)
        values = values[count:]
    return _Map(b" ".join(values), clamps, placed[b"-s"], placed[b"-o"])


def _floats(values: list[bytes], default: tuple[float, ...]) -> tuple[float, ...]:
    """Parse as many numbers as ``default`` has, clipped to [0, 1], or one for all; else return ``default``."""
    found = [min(max(float(value), 0.0), 1.0) for value in values if _is_number(value)]
    found *= len(default) if len(found) == 1 else 1
    return tuple(found[: len(default)]) if len(found) >= len(default) else default


def _is_number(value: bytes) -> bool:
    try:
        return np.isfinite(float(value))
    except ValueError:
        return False
