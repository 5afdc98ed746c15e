"""Numba kernels that parse OBJ files: they read vertices, texture coordinates and faces, and locate other statements.

A line ends at a line feed or a carriage return. Each kernel passes over the text exactly once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

MAX_CORNERS = 10_000  # per face
# Error codes of ``read_lines``.
FINE = 0
NO_NUMBER = 1
TOO_FEW = 2
NO_CORNER = 3
TOO_MANY = 4

_LINE_FEED = 10
_RETURN = 13
_SLASH = 47
_HASH = 35
_PLUS = 43
_MINUS = 45
_POINT = 46
_VERTEX = 0
_UV = 1
_FACE = 2
_SKIPPED = 3
_IGNORED = 4
_STATEMENT = 5
_MAX_DIGITS = 18  # that fit into int64


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
    """Return the begin of the next word; ``stop`` if there is none before ``stop`` or a comment."""
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
