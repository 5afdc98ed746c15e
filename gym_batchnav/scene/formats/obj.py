"""Reading of Wavefront OBJ scenes and their MTL materials.

trimesh is not used here: it counts relative (negative) indices from the end of the file instead of the face, which
scrambles files that use them, and drops ``map_d``.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from gym_batchnav.scene.builder import MAX_PARTS, TOO_MANY_PARTS, Material, Part, SceneBuilder, finite_uvs
from gym_batchnav.scene.color import linear_colors
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.scene import CLAMP, MASK, OPAQUE, REPEAT

MAX_CORNERS = 10_000  # per face
MAX_STATEMENTS = 1_000_000  # other than vertices and faces
MAX_STATEMENT_BYTES = 2**16
MAX_LIBRARIES = 1000  # of materials, and their total size
MAX_LIBRARY_BYTES = 2**23
# Limit of triangles: a constant allowance plus a rate per byte. A quad and its vertex take at least 18 bytes.
FREE_TRIANGLES = 2**18
TRIANGLES_PER_BYTE = 0.125

_DAMAGED = "the file is damaged, re-export it"
_LINE = re.compile(rb"(?:[^\n\\]+|\\\n?)*\n?")  # with those that continue it
# Lines of one form, which are read together: the word at their beginning, and form and number of the items after it.
_NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FORMS = (
    *((b"v", _NUMBER, 3), (b"v", _NUMBER, 6), (b"vt", _NUMBER, 2), (b"vt", _NUMBER, 3), (b"vn", _NUMBER, 3)),
    *((b"f", item, count) for item in (rb"\d+", rb"\d+/\d+", rb"\d+/\d+/\d+", rb"\d+//\d+") for count in (3, 4)),
)
_RUN = re.compile(b"|".join(rb"((?:%b(?: +%b){%d} *\n){1,4096})" % form for form in _FORMS))
_BLANKS = bytes.maketrans(b"vtf/", b"    ")
_NOT_FINITE = re.compile(rb"[+-]?[ni]..", re.IGNORECASE)  # the beginning of nan, inf and -nan(ind)
# Options of a texture statement with the number of values after each (at most three for -o, -s and -t).
_MAP_OPTIONS = {b"-blendu": 1, b"-blendv": 1, b"-bm": 1, b"-boost": 1, b"-cc": 1, b"-clamp": 1, b"-imfchan": 1}
_MAP_OPTIONS |= {b"-mm": 2, b"-o": 3, b"-s": 3, b"-t": 3, b"-texres": 1, b"-type": 1}
_NEXT_LIBRARY = re.compile(rb"(?<=\.mtl)\s+(?=\S)", re.IGNORECASE)  # names may contain spaces


class _Text:
    """The content of an OBJ file, in the order of the file.

    Args:
        data: The bytes of the file.

    Attributes:
        vertices: Three coordinates each.
        colors: Three sRGB values for each vertex that has them.
        uvs: Two coordinates each, v = 0 at the bottom.
        corner_vertex: For every corner of a face the row of its vertex.
        corner_uv: For every corner the row of its texture coordinates, -1 for none.
        first_corner: Where the corners of every face begin, and the number of all.
        groups: The numbers of groups of faces by object and material.
        face_group: The group of every face.
        libraries: The names of material files.
        num_skipped: How many lines, points and curves were left out.

    Raises:
        ValueError: If the file is damaged or exceeds a limit.
    """

    def __init__(self, data: bytes) -> None:
        self.vertices = array("d")
        self.colors = array("d")
        self.uvs = array("d")
        self.corner_vertex = array("i")
        self.corner_uv = array("i")
        self.first_corner = array("q", [0])
        self.groups: dict[tuple[bytes, bytes], int] = {}
        self.face_group = array("i")
        self.libraries: list[bytes] = []
        self.num_skipped = 0
        self._group = b"", b""
        self._object_word = b"o" if data.startswith(b"o ") + data.count(b"\no ") > 1 else b"g"
        self._num_statements = 0
        at = alone = 0  # lines before ``alone`` are read one by one, since one of them cannot be used
        number = 1
        while at < len(data):
            run = _RUN.match(data, at) if at >= alone else None
            if run and run.lastindex and self._add_run(run[0], *_FORMS[run.lastindex - 1]):
                end = run.end()
            else:
                alone = run.end() if run else alone
                line = _LINE.match(data, at)
                assert line is not None  # it matches anything
                end = line.end()
                try:
                    self._add(line[0].replace(b"\\\n", b" ").rstrip(b"\n"))
                except ValueError as error:
                    shown = line[0][:60].decode(errors="replace").rstrip()
                    raise ValueError(f"its line {number:,} is {shown!r}: {error}") from None
            number += data.count(b"\n", at, end)
            at = end
        num_triangles = len(self.corner_vertex) - 2 * len(self.face_group)
        if num_triangles > FREE_TRIANGLES + TRIANGLES_PER_BYTE * len(data):
            size = f"{num_triangles:,} triangles from {len(data):,} bytes"
            raise ValueError(f"its faces expand to {size}, more than any real mesh: split its faces of many corners")

    def _add(self, line: bytes) -> None:
        word, *values = line.split() or [b"#"]
        if b"#" in line and word in (b"v", b"vt", b"f"):
            values = list(takewhile(lambda value: not value.startswith(b"#"), values))
        if word == b"v":
            row = _numbers(values[:6], 3)
            self.vertices.extend(row[:3])
            if len(row) == 6:
                self.colors.extend(row[3:])
        elif word == b"vt":
            self.uvs.extend([*_numbers(values[:2], 1), 0.0][:2])
        elif word == b"f":
            self._add_face(values)
        elif word in (b"l", b"p"):
            self.num_skipped += 1
        elif not word.startswith((b"v", b"#")) and word != b"s":
            self._add_statement(line, word, values)

    def _add_run(self, text: bytes, word: bytes, item: bytes, count: int) -> bool:
        """Add lines of one form; return whether all of them can be used, without which none is added."""
        if word == b"vn":
            return True
        numbers = np.fromstring(text.translate(_BLANKS), np.int64 if word == b"f" else np.float64, sep=" ")
        if word != b"f":
            values = numbers.reshape(-1, count)
            kept = self.vertices if word == b"v" else self.uvs
            kept.frombytes(values[:, : 3 if word == b"v" else 2].tobytes())
            if count == 6:
                self.colors.frombytes(values[:, 3:].tobytes())
            return True
        rows = numbers.reshape(-1, count, item.count(b"d")) - 1
        vertices = rows[..., 0]
        uvs = rows[..., 1] if b"+/\\d" in item else np.full_like(vertices, -1)
        usable = rows.min() >= 0 and vertices.max() < len(self.vertices) // 3 and uvs.max() < len(self.uvs) // 2
        if usable:
            self._add_faces(vertices, uvs)
        return bool(usable)

    def _add_face(self, corners: Sequence[bytes]) -> None:
        if len(corners) > MAX_CORNERS:
            raise ValueError(f"a face may have at most {MAX_CORNERS:,} corners: split it")
        num_vertices = len(self.vertices) // 3
        num_uvs = len(self.uvs) // 2
        places = [corner.split(b"/", 2) for corner in corners]
        vertices = [_row(place[0], num_vertices) for place in places]
        uvs = [_row(place[1], num_uvs) if len(place) > 1 and place[1] else -1 for place in places]
        if len(corners) > 2:
            self._add_faces(np.array([vertices]), np.array([uvs]))

    def _add_faces(self, vertices: np.ndarray, uvs: np.ndarray) -> None:
        """Add faces by the rows [F, corners] of their vertices and texture coordinates."""
        self.corner_vertex.frombytes(vertices.astype(np.int32).tobytes())
        self.corner_uv.frombytes(uvs.astype(np.int32).tobytes())
        end = len(self.corner_vertex)
        num_faces, count = vertices.shape
        self.first_corner.extend(range(end - (num_faces - 1) * count, end + 1, count))
        self.face_group.extend([self.groups.setdefault(self._group, len(self.groups))] * num_faces)
        if len(self.groups) > MAX_PARTS:
            raise ValueError(TOO_MANY_PARTS)

    def _add_statement(self, line: bytes, word: bytes, values: list[bytes]) -> None:
        self._num_statements += 1
        if self._num_statements > MAX_STATEMENTS:
            many = f"more than {MAX_STATEMENTS:,} lines other than vertices and faces"
            raise ValueError(f"the file has {many}: join its groups, or save it as GLB")
        if len(line) > MAX_STATEMENT_BYTES:
            raise ValueError(f"it has {len(line):,} bytes, the limit is {MAX_STATEMENT_BYTES:,}: re-export it")
        name, material = self._group
        if word == self._object_word:
            self._group = b" ".join(values), material
        elif word == b"usemtl":
            self._group = name, _name(values)
        elif word == b"mtllib":
            self.libraries.append(line.split(None, 1)[-1].strip())
        elif word in (b"curv", b"surf"):
            self.num_skipped += 1


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
    text = _Text(files.main().replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    looks = _looks(files, builder, text.libraries, {name for _, name in text.groups})
    vertices = np.array(text.vertices).reshape(-1, 3)
    colors = linear_colors(np.array(text.colors).reshape(-1, 3)) if len(text.colors) == vertices.size else None
    plain = _FaceCorners(np.array(text.corner_vertex), vertices, colors, None)
    textured = _pairs(text, plain) if any(look.material.image >= 0 for look in looks.values()) else plain
    first_corner = np.array(text.first_corner)
    face_order = np.argsort(text.face_group, kind="stable")
    ends = np.cumsum(np.bincount(text.face_group, minlength=1))
    objects: dict[bytes, list[Part]] = {}
    for ((name, material_name), _), faces in zip(text.groups.items(), np.split(face_order, ends[:-1]), strict=False):
        look = looks.get(material_name, _Look())
        corners = textured if look.material.image >= 0 else plain
        part = _part(builder, _fans(first_corner, faces), look, corners)
        objects.setdefault(name, []).extend([part] if part is not None else [])
    for name, parts in objects.items():
        builder.add_object(name.decode(errors="replace") or files.path.stem, parts, np.eye(4))
    if text.num_skipped:
        files.warnings.append(f"{text.num_skipped} lines, points and curves were left out")


def _numbers(words: Sequence[bytes], least: int) -> list[float]:
    """Parse numbers, of which there must be ``least``; words like nan or inf give NaN."""
    if len(words) < least:
        raise ValueError(f"it has too few coordinates: {_DAMAGED}")
    try:
        return [float(word) for word in words]
    except ValueError:
        pass
    try:
        return [np.nan if _NOT_FINITE.match(word) else float(word) for word in words]
    except ValueError:
        raise ValueError(f"it has words that are not numbers: {_DAMAGED}") from None


def _row(word: bytes, num_rows: int) -> int:
    """Return the row, counted from 0, of an index, which counts from 1 or, if it is negative, back from the last."""
    index = int(word) if word.lstrip(b"+-").isdigit() else 0
    row = index - 1 if index > 0 else num_rows + index
    if index == 0 or not 0 <= row < num_rows:
        raise ValueError(f"it refers to a corner that is not defined before it: {_DAMAGED}")
    return row


def _fans(first_corner: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the corners [T, 3] of the triangles into which faces are split."""
    counts = first_corner[faces + 1] - first_corner[faces] - 2
    second = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first_corner[faces] - 1, counts)
    return np.stack([np.repeat(first_corner[faces], counts), second, second + 1], axis=1)


def _pairs(text: _Text, plain: _FaceCorners) -> _FaceCorners:
    """Return the corners with one row per distinct pair of position and texture coordinates."""
    listed = np.array(text.uvs).reshape(-1, 2) * [1, -1] + [0, 1]
    uvs = np.concatenate([np.zeros((1, 2)), listed])  # row 0 is for corners without any
    keys = plain.rows.astype(np.int64) * len(uvs) + np.array(text.corner_uv) + 1
    pairs, rows = np.unique(keys, return_inverse=True)
    of_vertex, of_uv = np.divmod(pairs, len(uvs))
    return _FaceCorners(
        rows.astype(np.int32),
        plain.vertices[of_vertex],
        None if plain.colors is None else plain.colors[of_vertex],
        uvs.astype(np.float32)[of_uv],
    )


def _part(builder: SceneBuilder, triangles: np.ndarray, look: _Look, corners: _FaceCorners) -> Part | None:
    """Return the part of some triangles of corners [T, 3]."""
    part = builder.part(corners.vertices, corners.rows[triangles], look.material, corners.uvs, corners.colors)
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
        data = _read_beside(files, picture)
        label = picture.decode(errors="replace")
        images[picture, mask] = builder.add_image(data, label, _read_beside(files, mask) if mask else None)
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


def _read_beside(files: SceneFiles, name: bytes) -> bytes | None:
    try:
        return files.beside(name.decode(errors="replace"), any_case=True)
    except OSError:
        return None


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
