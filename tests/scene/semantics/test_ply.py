"""PLY files with object numbers, read as untrusted data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scans import object_ply

from gym_batchnav.scene.formats.via_trimesh import read_object_ply

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
QUAD = object_ply(CORNERS, np.array([[0, 1, 2, 3]]), np.array([7]))


def test_polygons_become_fans_with_the_number_of_their_face():
    vertices, triangles, numbers = read_object_ply(QUAD)
    np.testing.assert_array_equal(vertices, CORNERS)
    assert triangles.tolist() == [[0, 1, 2], [0, 2, 3]] and numbers.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"ply\n", b"plx\n", "vertices, faces or their object_id cannot be read"),
        (b"binary_little_endian", b"ascii", "not text"),
        (b"object_id", b"segment_x", "object_id"),
        (b"element vertex 4", b"element vertex 400000000", "more than fit"),
        (b"element face 1", b"element face 4000000000000", "more than fit"),
        (b"vertex_indices", b"corners", "vertices, faces or their object_id cannot be read"),
        (b"list uchar int", b"list float int", "vertices, faces or their object_id cannot be read"),
    ],
)
def test_damaged_files_are_refused(old, new, reason):
    assert QUAD.count(old) == 1
    with pytest.raises(ValueError, match=reason):
        read_object_ply(QUAD.replace(old, new))


def test_corners_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="vertices that do not exist"):
        read_object_ply(object_ply(CORNERS, np.array([[0, 1, 4]]), np.array([1])))


@given(st.binary(max_size=60), st.integers(0, len(QUAD)))
def test_any_bytes_are_read_or_refused(inserted, place):
    try:
        _, triangles, numbers = read_object_ply(QUAD[:place] + inserted + QUAD[place + len(inserted) // 2 :])
    except ValueError:
        return
    assert len(triangles) == len(numbers)
