"""Reading of Wavefront OBJ scenes and their MTL materials.

trimesh is not used here: it counts relative (negative) indices from the end of the file instead of the face, so that it
cannot read files that use them, and drops ``map_d``.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, replace
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

_NO_NUMBER = "it has words that are not numbers: the file is damaged, re-export it"
_TOO_FEW = "it has too few coordinates: the file is damaged, re-export it"
_NO_CORNER = "it refers to a corner that is not defined before it: the file is damaged, re-export it"
_TOO_MANY = f"a face may have at most {MAX_CORNERS:,} corners: split it"
# Options of a texture statement with the number of values after each (at most three for -o, -s and -t).
_MAP_OPTIONS = {b"-blendu": 1, b"-blendv": 1, b"-bm": 1, b"-boost": 1, b"-cc": 1, b"-clamp": 1, b"-imfchan": 1}
_MAP_OPTIONS |= {b"-mm": 2, b"-o": 3, b"-s": 3, b"-t": 3, b"-texres": 1, b"-type": 1}
_NUMBER = r"[ \t]+[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_INDEX = r"-?\d{1,9}"
_CORNERS = {"v": "I", "vt": "I/I", "vtn": "I/I/I", "vn": "I//I"}  # forms of corners, by what they refer to
_FACES = {f"{form}{n}": rf"f(?:[ \t]+{text}){{{n}}}" for n in (3, 4) for form, text in _CORNERS.items()}
_FORMS = {"vertex": f"v(?:{_NUMBER}){{3}}", "uv": f"vt(?:{_NUMBER}){{2}}"}
_FORMS |= {name: text.replace("I", _INDEX) for name, text in _FACES.items()}
# Lines of one form, which are read at once, or any other line, with those that it continues.
_LINES = re.compile(
    "|".join(rf"(?P<{name}>(?:{text}[ \t]*\n){{2,4096}})" for name, text in _FORMS.items()).encode()
    + rb"|(?:[^\n]*\\\n)*[^\n]*\n?"
)
_NEXT_LIBRARY = re.compile(rb"(?<=\.mtl)\s+(?=\S)", re.IGNORECASE)  # names may contain spaces


class _Text:
    """The content of an OBJ file, in the order of the file.

    Attributes:
        vertices: Three coordinates for each vertex.
        colors: sRGB of each vertex that has one.
        uvs: Two texture coordinates for each ``vt``, v = 0 at the bottom.
        first_corner: Where the corners of each face begin, and the number of all.
        corner_vertex: The row of each corner's vertex.
        corner_uv: The row of each corner's texture coordinates, -1 for none.
        statements: All other lines, with the number of faces before each.
        num_skipped: The number of lines and points.
    """

    def __init__(self, data: bytes) -> None:
        self.vertices = array("d")
        self.colors = array("d")
        self.uvs = array("d")
        self.first_corner = array("q", [0])
        self.corner_vertex = array("i")
        self.corner_uv = array("i")
        self.statements: list[tuple[bytes, int]] = []
        self.num_skipped = 0
        number = 1
        for lines in _LINES.finditer(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
            form, text = lines.lastgroup, lines[0]
            if form is None:
                self._add_checked(text.replace(b"\\\n", b" "), number)
            elif not self._add_alike(form, text):
                for k, line in enumerate(text.splitlines()):
                    self._add_checked(line, number + k)
            number += text.count(b"\n")
        num_triangles = len(self.corner_vertex) - 2 * (len(self.first_corner) - 1)
        if num_triangles > FREE_TRIANGLES + TRIANGLES_PER_BYTE * len(data):
            size = f"{num_triangles:,} triangles from {len(data):,} bytes"
            raise ValueError(f"its faces expand to {size}, more than any real mesh: split its faces of many corners")

    def _add_alike(self, form: str, lines: bytes) -> bool:
        """Add lines of one form at once; return False without an effect if one of them is damaged."""
        count = lines.count(b"\n")
        if form == "vertex":
            self.vertices.frombytes(np.fromstring(lines.replace(b"v", b""), sep=" ").tobytes())
        elif form == "uv":
            self.uvs.frombytes(np.fromstring(lines.replace(b"vt", b""), sep=" ").tobytes())
        else:
            num_corners = int(form[-1])
            text = lines.replace(b"f", b"").replace(b"/", b" ")
            indices = np.fromstring(text, np.int64, sep=" ").reshape(count * num_corners, -1)
            vertex = _rows(indices[:, 0], len(self.vertices) // 3)
            uv = _rows(indices[:, 1], len(self.uvs) // 2) if "t" in form else np.full(len(indices), -1, np.int32)
            if vertex is None or uv is None:
                return False
            ends = len(self.corner_vertex) + num_corners * np.arange(1, count + 1)
            self.first_corner.frombytes(ends.tobytes())
            self.corner_vertex.frombytes(vertex.tobytes())
            self.corner_uv.frombytes(uv.tobytes())
        return True

    def _add_checked(self, line: bytes, number: int) -> None:
        """Add a line; errors show it with its number."""
        try:
            self._add(line)
        except ValueError as error:
            shown = line[:60].strip().decode(errors="replace")
            raise ValueError(f"its line {number:,} is {shown!r}: {error}") from None
        if len(self.statements) > MAX_STATEMENTS:
            raise ValueError(
                f"it has more than {MAX_STATEMENTS:,} lines other than vertices and faces: "
                "join its groups, or save it as GLB"
            )

    def _add(self, line: bytes) -> None:
        """Add a line.

        Raises:
            ValueError: If it is damaged, with the reason.
        """
        words = line.split()
        if not words:
            return
        kind = words[0]
        if b"#" in line and kind in (b"v", b"vt", b"f"):
            words = words[: next((k for k, word in enumerate(words) if word.startswith(b"#")), len(words))]
        if kind == b"v":
            values = _numbers(words[1:7], 3)
            self.vertices.extend(values[:3])
            self.colors.extend(values[3:6] if len(values) == 6 else ())
        elif kind == b"vt":
            self.uvs.extend((*_numbers(words[1:3], 1), 0.0)[:2])
        elif kind == b"f":
            self._add_face(words[1:])
        elif kind in (b"l", b"p"):
            self.num_skipped += 1
        elif kind != b"s" and not kind.startswith((b"v", b"#")):
            line = line.strip()
            if len(line) > MAX_STATEMENT_BYTES:
                raise ValueError(f"a line of {len(line):,} bytes, the limit is {MAX_STATEMENT_BYTES:,}: re-export it")
            self.statements.append((line, len(self.first_corner) - 1))

    def _add_face(self, words: list[bytes]) -> None:
        if len(words) > MAX_CORNERS:
            raise ValueError(_TOO_MANY)
        rows = [self._corner(word) for word in words]
        if len(rows) > 2:
            for vertex, uv in rows:
                self.corner_vertex.append(vertex)
                self.corner_uv.append(uv)
            self.first_corner.append(len(self.corner_vertex))

    def _corner(self, word: bytes) -> tuple[int, int]:
        """Return the rows of a corner's vertex and texture coordinates, -1 for none, such as those of ``1/2/3``."""
        first, second = (*word.split(b"/"), b"")[:2]
        try:
            vertex = _row(int(first), len(self.vertices) // 3)
            return vertex, _row(int(second), len(self.uvs) // 2) if int(second or b"0") else -1
        except ValueError:
            raise ValueError(_NO_CORNER) from None


def _row(index: int, num_rows: int) -> int:
    """Return the row of an index, which counts from 1 or backwards from the end; ValueError if there is none."""
    row = index - 1 if index > 0 else num_rows + index
    if not index or not 0 <= row < num_rows:
        raise ValueError
    return row


def _rows(indices: np.ndarray, num_rows: int) -> np.ndarray | None:
    """Return the rows [C] int32 of indices [C], which count from 1 or backwards from the end, None if one is wrong."""
    rows = np.where(indices > 0, indices - 1, num_rows + indices)
    return rows.astype(np.int32) if ((indices != 0) & (rows >= 0) & (rows < num_rows)).all() else None


def _numbers(words: list[bytes], least: int) -> list[float]:
    """Parse at least ``least`` numbers; words such as nan and inf give NaN."""
    if len(words) < least:
        raise ValueError(_TOO_FEW)
    try:
        return [*map(float, words)]
    except ValueError:
        if all(_is_number(word) or word.lstrip(b"+-")[:1].lower() in (b"n", b"i") for word in words):
            return [float(word) if _is_number(word) else np.nan for word in words]
        raise ValueError(_NO_NUMBER) from None


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
    text = _Text(files.main())
    groups, runs, libraries, num_curves = _groups(text)
    looks = _looks(files, builder, libraries, {name for _, name in groups})
    plain = _plain(text)
    textured = _pairs(text, plain) if any(look.material.image >= 0 for look in looks.values()) else plain
    objects: dict[bytes, list[Part]] = {}
    for (name, material), corners in zip(groups, _triangles(text, runs, len(groups)), strict=True):
        look = looks.get(material, _Look())
        part = _part(builder, corners, look, textured if look.material.image >= 0 else plain)
        objects.setdefault(name, []).extend([part] if part is not None else [])
    for name, parts in objects.items():
        builder.add_object(name.decode(errors="replace") or files.path.stem, parts, np.eye(4))
    if text.num_skipped + num_curves:
        files.warnings.append(f"{text.num_skipped + num_curves} lines, points and curves were left out")


def _groups(text: _Text) -> tuple[list[tuple[bytes, bytes]], list[tuple[int, int]], list[bytes], int]:
    """Group faces by object and material, and find the material libraries.

    Returns:
        The pairs of an object and a material; for each run of faces the row of its pair and the number of faces; the
        libraries' names; the number of curves.
    """
    object_word = b"o" if sum(line.startswith(b"o ") for line, _ in text.statements) > 1 else b"g"
    groups: dict[tuple[bytes, bytes], int] = {}
    runs: list[tuple[int, int]] = []
    libraries: list[bytes] = []
    name = b""
    material = b""
    num_curves = 0
    first = 0
    for line, num_before in [*text.statements, (b"", len(text.first_corner) - 1)]:
        word, *values = line.split() or [b""]
        if word in (object_word, b"usemtl", b""):
            if num_before > first:
                runs.append((groups.setdefault((name, material), len(groups)), num_before - first))
                if len(groups) > MAX_PARTS:
                    raise ValueError(TOO_MANY_PARTS)
            first = num_before
        if word == object_word:
            name = b" ".join(values)
        elif word == b"usemtl":
            material = b" ".join(values)
        elif word == b"mtllib":
            libraries.append(line.split(None, 1)[-1].strip())
        elif word in (b"curv", b"surf"):
            num_curves += 1
    return list(groups), runs, libraries, num_curves


def _triangles(text: _Text, runs: list[tuple[int, int]], num_groups: int) -> list[np.ndarray]:
    """Return the corners [T, 3] int64 of the triangles of each group, the fans of its faces."""
    first = np.array(text.first_corner)
    counts = np.diff(first) - 2
    start = np.repeat(first[:-1], counts)
    step = np.arange(len(start)) - np.repeat(np.cumsum(counts) - counts, counts)
    fans = np.stack([start, start + step + 1, start + step + 2], axis=1)
    group = np.repeat(np.repeat(*np.array(runs, np.int64).reshape(-1, 2).T), counts)
    ends = np.cumsum(np.bincount(group, minlength=num_groups))
    return np.split(fans[np.argsort(group, kind="stable")], ends[:-1]) if num_groups else []


def _plain(text: _Text) -> _FaceCorners:
    """Return the corners with one row per vertex."""
    vertices = np.array(text.vertices).reshape(-1, 3)
    colors = linear_colors(np.array(text.colors).reshape(-1, 3)) if len(text.colors) == vertices.size else None
    return _FaceCorners(np.array(text.corner_vertex), vertices, colors if len(vertices) else None, None)


def _pairs(text: _Text, plain: _FaceCorners) -> _FaceCorners:
    """Return the corners with one row per distinct pair of position and texture coordinates."""
    uvs = np.concatenate([np.zeros((1, 2)), np.array(text.uvs).reshape(-1, 2) * [1, -1] + [0, 1]])  # row 0 is for none
    pairs, rows = np.unique(plain.rows.astype(np.int64) * len(uvs) + text.corner_uv + 1, return_inverse=True)
    of_vertex, of_uv = np.divmod(pairs, len(uvs))
    return _FaceCorners(
        rows.astype(np.int32),
        plain.vertices[of_vertex],
        None if plain.colors is None else plain.colors[of_vertex],
        uvs.astype(np.float32)[of_uv],
    )


def _part(builder: SceneBuilder, triangles: np.ndarray, look: _Look, corners: _FaceCorners) -> Part | None:
    """Return the part of triangles [T, 3], which are rows of ``corners``."""
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
            word, *values = line.split(b"#")[0].split() or [b""]
            if word == b"newmtl":
                name = b" ".join(values)
                current = statements.setdefault(name, {}) if name in used else {}
            else:
                current[word.lower()] = values
    images: dict[tuple[bytes, bytes], int] = {}
    return {name: _look(files, builder, found, images) for name, found in statements.items()}


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
    """Parse as many numbers as ``default`` has, clipped to [0, 1]; return ``default`` if there are fewer."""
    found = [min(max(float(value), 0.0), 1.0) for value in values if _is_number(value)]
    return tuple(found[: len(default)]) if len(found) >= len(default) else default


def _is_number(value: bytes) -> bool:
    try:
        return np.isfinite(float(value))
    except ValueError:
        return False
