"""Reading of Wavefront OBJ scenes and their MTL materials.

trimesh is not used here: it counts relative (negative) indices from the end of the file instead of the face, which
scrambles files that use them, and drops ``map_d``. Numba kernels parse the text instead: they read vertices, texture
coordinates and faces, and locate other statements. A line ends at a line feed or a carriage return. Each kernel passes
over the text exactly once.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.scene.builder import MAX_PARTS, TOO_MANY_PARTS, Material, Part, SceneBuilder, finite_uvs
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.color import linear_colors
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.scene import CLAMP, MASK, OPAQUE, REPEAT
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64
from gym_batchnav.system.storage import check_pulled

MAX_STATEMENTS = 1_000_000  # other than vertices and faces
MAX_STATEMENT_BYTES = 2**16
MAX_LIBRARIES = 1000  # of materials, and their total size
MAX_LIBRARY_BYTES = 2**23
# Limit of triangles: a constant allowance plus a rate per byte. A quad and its vertex take at least 18 bytes.
FREE_TRIANGLES = 2**18
TRIANGLES_PER_BYTE = 0.125
MAX_CORNERS = 10_000  # per face
FINE, NO_NUMBER, TOO_FEW, NO_CORNER, TOO_MANY = range(5)  # error codes of ``read_lines``
_LINE_FEED, _RETURN, _SLASH, _HASH, _PLUS, _MINUS, _POINT = b"\n\r/#+-."
_VERTEX, _UV, _FACE, _SKIPPED, _IGNORED, _STATEMENT = range(6)  # kinds of lines
_MAX_DIGITS = 18  # that fit into int64
_REASONS = {
    NO_NUMBER: "it has words that are not numbers: the file is damaged, re-export it",
    TOO_FEW: "it has too few coordinates: the file is damaged, re-export it",
    NO_CORNER: "it refers to a corner that is not defined before it: the file is damaged, re-export it",
    TOO_MANY: f"a face may have at most {MAX_CORNERS:,} corners: split it",
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
        one = SceneObject.named(name.decode(errors="replace") or files.path.stem)
        builder.add_object(one, parts, np.eye(4))
    if text.num_skipped + num_curves:
        files.warnings.append(f"{text.num_skipped + num_curves} lines, points and curves were left out")


def _read(data: bytes) -> _Text:
    """Parse the bytes of a file; limits are checked before memory is allocated."""
    as_written = data
    data = data.replace(b"\\\r\n", b"  ").replace(b"\\\n", b" ")  # continued lines become one
    text = np.frombuffer(data, np.uint8)
    counts = np.zeros(8, np.int64)
    count_lines(text, counts)
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
    wrong, line = read_lines(text, vertices, colors, uvs, first_corner, corner_vertex, corner_uv, places)
    if wrong != FINE:
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
    cut_fans(text.first_corner, spans, corners.rows, triangles)
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
        check_pulled(text, repr(library.decode(errors="replace")))
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


@njit(**SMALL)
def _is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 13


@njit(**SMALL)
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@njit(**INNER)
def _line_end(text: np.ndarray, at: int) -> int:
    while at < len(text) and text[at] != _LINE_FEED and text[at] != _RETURN:
        at += 1
    return at


@njit(**INNER)
def _word_start(text: np.ndarray, at: int, stop: int) -> int:
    """Return the beginning of the next word; ``stop`` if there is none before ``stop`` or a comment."""
    while at < stop and _is_space(text[at]):
        at += 1
    return stop if at < stop and text[at] == _HASH else at


@njit(**INNER)
def _word_end(text: np.ndarray, at: int, stop: int) -> int:
    while at < stop and not _is_space(text[at]):
        at += 1
    return at


@njit(**INNER)
def _kind(text: np.ndarray, at: int, word_stop: int) -> int:
    """Return the kind of a line, given its first word from ``at`` to ``word_stop``."""
    if at == word_stop:
        return _IGNORED
    first = text[at]
    length = word_stop - at
    if first == ord("v"):
        if length == 1:
            return _VERTEX
        return _UV if length == 2 and text[at + 1] == ord("t") else _IGNORED
    if length == 1 and first == ord("f"):
        return _FACE
    if length == 1 and (first == ord("l") or first == ord("p")):
        return _SKIPPED
    return _IGNORED if length == 1 and first == ord("s") else _STATEMENT


@njit(**INNER)
def _num_words(text: np.ndarray, at: int, stop: int) -> int:
    num_words = 0
    at = _word_start(text, at, stop)
    while at < stop:
        num_words += 1
        at = _word_start(text, _word_end(text, at, stop), stop)
    return num_words


@njit(**ENTRY)
def count_lines(text: np.ndarray, counts: np.ndarray) -> None:
    """Count the statements of a file's text by kind.

    Args:
        text: [B] uint8.
        counts: [8] int64, gets the numbers of vertices, of those with six numbers or more, of texture coordinates,
            faces with three corners or more, corners and triangles, of lines and points, and of all other statements.
    """
    counts[:] = 0
    at = to_int64(0)
    while at < len(text):
        stop = _line_end(text, at)
        at = _word_start(text, at, stop)
        word_stop = _word_end(text, at, stop)
        kind = _kind(text, at, word_stop)
        if kind == _VERTEX:
            counts[0] += 1
            counts[1] += _num_words(text, word_stop, stop) >= 6
        elif kind == _UV:
            counts[2] += 1
        elif kind == _FACE:
            num_corners = _num_words(text, word_stop, stop)
            counts[3] += num_corners > 2
            counts[4] += num_corners
            counts[5] += max(num_corners - 2, 0)
        elif kind == _SKIPPED:
            counts[6] += 1
        elif kind == _STATEMENT:
            counts[7] += 1
        at = stop + 1


@njit(**INNER)
def _number(text: np.ndarray, at: int, stop: int) -> tuple[float, int]:
    """Parse the number at ``at``; return it and its end, -1 for no number. Words like nan or inf give NaN."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    digits = 0
    exponent = 0
    num_digits = 0
    any_digit = False
    in_fraction = False
    while at < stop and (_is_digit(text[at]) or (text[at] == _POINT and not in_fraction)):
        if text[at] == _POINT:
            in_fraction = True
        else:
            any_digit = True
            if num_digits < _MAX_DIGITS:
                digits = digits * 10 + (text[at] - 48)
                num_digits += digits > 0
                exponent -= in_fraction
            else:
                exponent += not in_fraction
        at += 1
    if not any_digit:
        known = at + 3 <= stop and (text[at] | 32 == ord("n") or text[at] | 32 == ord("i"))
        return np.nan, _word_end(text, at, stop) if known else -1
    if at < stop and text[at] | 32 == ord("e"):
        at += 1
        down = at < stop and text[at] == _MINUS
        if at < stop and (down or text[at] == _PLUS):
            at += 1
        start = at
        power = 0
        while at < stop and _is_digit(text[at]):
            power = min(power * 10 + (text[at] - 48), 10_000)
            at += 1
        if at == start:
            return np.nan, -1
        exponent += -power if down else power
    value = float(digits)
    if -22 <= exponent < 0:
        value /= 10.0**-exponent  # rounded once: both are exact
    elif exponent != 0 and digits > 0:
        value *= 10.0 ** min(max(exponent, -400), 400)
    if at < stop and not _is_space(text[at]):
        return np.nan, -1
    return -value if negative else value, at


@njit(**INNER)
def _numbers(text: np.ndarray, at: int, stop: int, out: np.ndarray) -> int:
    """Read at most ``len(out)`` numbers and return their count, or -1 if a word is not a number."""
    num_read = 0
    at = _word_start(text, at, stop)
    while at < stop and num_read < len(out):
        out[num_read], at = _number(text, at, stop)
        if at < 0:
            return -1
        num_read += 1
        at = _word_start(text, at, stop)
    return num_read


@njit(**INNER)
def _row(text: np.ndarray, at: int, stop: int, num_rows: int) -> tuple[int, int]:
    """Parse an index; return its row, counted from 0, and its end.

    An index counts from 1, a negative one backwards from the last of ``num_rows``. The row is -1 for index 0 or none
    at all, -2 beyond the rows.
    """
    negative = at < stop and text[at] == _MINUS
    if negative or (at < stop and text[at] == _PLUS):
        at += 1
    index = 0
    while at < stop and _is_digit(text[at]):
        index = min(index * 10 + (text[at] - 48), 2**40)
        at += 1
    if index == 0:
        return -1, at
    row = num_rows - index if negative else index - 1
    return row if 0 <= row < num_rows else -2, at


@njit(**INNER)
def _face(
    text: np.ndarray,
    at: int,
    stop: int,
    num_vertices: int,
    num_uvs: int,
    corner: int,
    rows: np.ndarray,
    uvs: np.ndarray,
) -> int:
    """Write the rows of a face's corners from ``corner`` on; return their count, or -1 if one does not exist."""
    num_corners = 0
    at = _word_start(text, at, stop)
    while at < stop:
        row, at = _row(text, at, stop, num_vertices)
        uv = -1
        if at + 1 < stop and text[at] == _SLASH and text[at + 1] != _SLASH and not _is_space(text[at + 1]):
            uv, at = _row(text, at + 1, stop, num_uvs)
        if row < 0 or uv < -1 or (at < stop and text[at] != _SLASH and not _is_space(text[at])):
            return -1
        rows[corner + num_corners] = row
        if len(uvs):
            uvs[corner + num_corners] = uv
        num_corners += 1
        at = _word_start(text, _word_end(text, at, stop), stop)
    return num_corners


@njit(**ENTRY)
def read_lines(
    text: np.ndarray,
    vertices: np.ndarray,
    colors: np.ndarray,
    uvs: np.ndarray,
    first_corner: np.ndarray,
    corner_vertex: np.ndarray,
    corner_uv: np.ndarray,
    statements: np.ndarray,
) -> tuple[int, int]:
    """Read a file's text into arrays of the sizes that ``count_lines`` found.

    Args:
        text: [B] uint8.
        vertices: [V, 3] float64.
        colors: [V, 3] float64, or [0, 3] if not all vertices have colours.
        uvs: [U, 2] float64.
        first_corner: [F + 1] int64, where the corners of every face begin, and the number of all.
        corner_vertex: [C] int32, rows of vertices.
        corner_uv: [C] int32, rows of uvs or -1; [0] if U is 0.
        statements: [S, 3] int64: where the statement begins and ends in the text, and the faces before it.

    Returns:
        An error code (``FINE`` for none) and the beginning of the line that it concerns.
    """
    zero = to_int64(0)
    num_vertices = zero
    num_uvs = zero
    num_faces = zero
    num_statements = zero
    corner = zero
    six = np.zeros(6)
    at = zero
    first_corner[0] = 0
    while at < len(text):
        line = at
        stop = _line_end(text, at)
        at = _word_start(text, at, stop)
        word_stop = _word_end(text, at, stop)
        kind = _kind(text, at, word_stop)
        if kind == _VERTEX or kind == _UV:
            num_read = _numbers(text, word_stop, stop, six)
            if num_read < 0:
                return NO_NUMBER, line
            if num_read < (3 if kind == _VERTEX else 1):
                return TOO_FEW, line
            if kind == _VERTEX:
                for k in range(3):  # assigning a row takes seconds to compile
                    vertices[num_vertices, k] = six[k]
                    if len(colors):
                        colors[num_vertices, k] = six[3 + k]
                num_vertices += 1
            else:
                uvs[num_uvs, 0] = six[0]
                uvs[num_uvs, 1] = six[1] if num_read > 1 else 0.0
                num_uvs += 1
        elif kind == _FACE:
            num_corners = _face(text, word_stop, stop, num_vertices, num_uvs, corner, corner_vertex, corner_uv)
            if num_corners < 0:
                return NO_CORNER, line
            if num_corners > MAX_CORNERS:
                return TOO_MANY, line
            if num_corners > 2:
                corner += num_corners
                num_faces += 1
                first_corner[num_faces] = corner
        elif kind == _STATEMENT:
            statements[num_statements, 0] = at
            statements[num_statements, 1] = stop
            statements[num_statements, 2] = num_faces
            num_statements += 1
        at = stop + 1
    return FINE, -1


@njit(**ENTRY)
def cut_fans(first_corner: np.ndarray, spans: np.ndarray, corners: np.ndarray, triangles: np.ndarray) -> None:
    """Split faces into fans of triangles.

    Args:
        first_corner: [F + 1] int64, where the corners of every face begin.
        spans: [K, 2] int64, the first of some faces in a row and the face after the last.
        corners: [C] int32, the values of the corners that triangles refer to.
        triangles: [T, 3] int32, gets the triangles.
    """
    num_triangles = 0
    for span in range(len(spans)):
        for face in range(spans[span, 0], spans[span, 1]):
            start = first_corner[face]
            for corner in range(start + 2, first_corner[face + 1]):
                triangles[num_triangles, 0] = corners[start]
                triangles[num_triangles, 1] = corners[corner - 1]
                triangles[num_triangles, 2] = corners[corner]
                num_triangles += 1
