"""Numbers that kernels are handed: the extremes, and their types."""

import numba
import numpy as np
from quads import scene_of, wall
from rays import AHEAD, METRES, render

from gym_batchnav.render.embree import packet, trace
from gym_batchnav.render.embree.shade import LOG2_ERROR, find_levels, finish_colors


def test_mip_levels_are_as_exact_as_they_say():
    size = 512
    levels = 9
    array = packet.new_packets.py_func(1)[0]
    floats = array.view(np.float32)

    @numba.njit
    def find(array: np.ndarray, floats: np.ndarray, size: int) -> None:
        find_levels(array, floats, size)

    # Squares of footprints from a fifth of a texel to five textures, and what no texture has.
    squares = np.geomspace(0.2 / size, 5, 160_000).astype(np.float32).reshape(-1, 16) ** 2
    worst = 0.0
    for row in squares:
        floats[packet.FOOTPRINT : packet.FOOTPRINT + 16] = row
        find(array, floats, size)
        level = array[packet.LEVEL : packet.LEVEL + 16] + floats[packet.BLEND : packet.BLEND + 16].astype(np.float64)
        exact = np.clip(np.log2(size) + 0.5 * np.log2(row.astype(np.float64)), 0, levels)
        worst = max(worst, np.abs(level - exact).max())
    assert worst <= LOG2_ERROR / 2 + 2e-6  # and the rounding of a float32 near 9
    for absurd, expected in ((0.0, 0), (np.inf, levels), (np.nan, levels)):
        floats[packet.FOOTPRINT : packet.FOOTPRINT + 16] = absurd
        find(array, floats, size)
        assert (array[packet.LEVEL : packet.LEVEL + 16] == expected).all()


def test_read_only_arrays_compile_no_second_kernel():
    render(scene_of(wall(2)), AHEAD, METRES)
    compiled = len(trace.draw.signatures)
    views = np.broadcast_to(AHEAD, (6, 4, 4))
    slots = np.zeros(12, np.int64)[::2]
    slots.flags.writeable = False
    assert np.allclose(render(scene_of(wall(2)), views, METRES, slots=slots)["depth"], 2)
    assert len(trace.draw.signatures) == compiled


def test_light_that_is_not_a_number_is_black():
    """It comes from triangles so small that their normals underflow, and would be a wild index of the sRGB table."""

    @numba.njit
    def finish(packet, floats):
        finish_colors(packet, floats, np.float32(4095))

    words = np.zeros(packet.SHOWN_RGB + 48, np.int32)
    words.view(np.float32)[packet.LIGHT : packet.LIGHT + 16] = np.nan
    finish(words, words.view(np.float32))
    assert (words[packet.SHOWN_RGB :] == 0).all()
