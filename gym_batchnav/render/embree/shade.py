"""Kernels that compute the colours of the surfaces that a packet of rays has hit.

Memory is read ray by ray, but all arithmetic runs over the sixteen rays of a packet at once; sRGB is therefore decoded
by a polynomial instead of a table. LLVM vectorises the loops over lanes because they are innermost loops without
branches or calls that are not inlined. Missed rays are shaded as well, which is cheaper than a branch: they read the
record of the triangle that their lane hit before (initially triangle 0), and their colours are ignored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit

from gym_batchnav.render import records
from gym_batchnav.render.embree import packet as layout
from gym_batchnav.render.embree.packet import pointer, prefetch, read_appearance, read_mapping, read_material
from gym_batchnav.render.records import GRADIENT_U, GRADIENT_V, NEAREST_BIT, U0, U1, U2, V0, V1, V2
from gym_batchnav.scene.scene import MIRROR, REPEAT
from gym_batchnav.system.jit import INNER, SMALL, to_int64

REPEATING = np.int32(REPEAT)
LOG2_ERROR = 4e-5  # of the logarithm in find_levels


class Shading(NamedTuple):
    """The inputs of shading other than surfaces."""

    brightness: np.ndarray  # [2] float32, ambient and diffuse
    size: int  # texels per side of level 0 of the texture pools
    level_starts: np.ndarray  # [levels] int64, see textures.level_starts
    encode: np.ndarray  # [steps + 1] uint8, sRGB byte of evenly spaced linear light


@njit(**SMALL)
def fetch_records(packet: np.ndarray, triangles: int) -> None:
    """Ask the processor to load the records, at an address, of the triangles hit; they are read later."""
    for lane in range(16):
        prefetch(triangles + 4 * records.TRIANGLE_WORDS * to_int64(unsigned(packet[layout.TRIANGLE + lane])))


@njit(**SMALL)
def fetch_texels(packet: np.ndarray, texels: int) -> None:
    """Ask the processor to load the texels that are read later from the texture pool at an address."""
    for k in range(4):
        for lane in range(16):
            prefetch(texels + 4 * to_int64(unsigned(packet[layout.TEXELS + 32 * k + lane])))


@njit(**SMALL)
def any_textured(packet: np.ndarray) -> bool:
    """Return whether any triangle hit has a texture."""
    none = np.int32(-1)
    for lane in range(16):
        none &= packet[layout.TEXTURE + lane]
    return bool(none >= 0)


@njit(**SMALL)
def all_repeat(packet: np.ndarray) -> bool:
    """Return whether all textures of a packet repeat and are interpolated."""
    modes = np.int32(0)
    for lane in range(16):
        modes |= packet[layout.WRAP_U + lane] | packet[layout.WRAP_V + lane]
    return bool(modes == REPEATING)


@njit(**INNER)
def find_light(floats: np.ndarray, light: np.ndarray, brightness: np.ndarray) -> None:
    """Compute the light that reaches each surface, from the triangles' normals turned towards the viewer."""
    ambient = brightness[0]
    diffuse = brightness[1]
    lx = light[0]
    ly = light[1]
    lz = light[2]
    for lane in range(16):
        nx = floats[layout.NORMAL + lane]
        ny = floats[layout.NORMAL + 16 + lane]
        nz = floats[layout.NORMAL + 32 + lane]
        away = nx * floats[layout.DIRECTION + lane] + ny * floats[layout.DIRECTION + 16 + lane]
        away += nz * floats[layout.DIRECTION + 32 + lane]
        cosine = (nx * lx + ny * ly + nz * lz) / np.sqrt(nx * nx + ny * ny + nz * nz)
        cosine = -cosine if away > np.float32(0.0) else cosine
        floats[layout.LIGHT + lane] = ambient + diffuse * max(np.float32(0.0), cosine)


@njit(**INNER, fastmath={"contract"})
def find_footprints(floats: np.ndarray) -> None:
    """Write the texture coordinates and the squares of the longer axes of the pixels' footprints, in textures.

    For a ray of direction D and length t (in lengths of D) that hits a plane of normal n, the hit
    point moves by t (dD - D (n . dD) / (n . D)) on the plane when the direction changes by dD, here by one pixel. If
    rays are parallel, their origin changes by dD and t does not matter.
    """
    ax = floats[layout.AXES]
    ay = floats[layout.AXES + 1]
    az = floats[layout.AXES + 2]
    bx = floats[layout.AXES + 3]
    by = floats[layout.AXES + 4]
    bz = floats[layout.AXES + 5]
    is_parallel = floats[layout.PARALLEL] != np.float32(0.0)
    for lane in range(16):
        u = floats[layout.U + lane]
        v = floats[layout.V + lane]
        u_1 = floats[layout.RECORD + 16 * U1 + lane]
        u_2 = floats[layout.RECORD + 16 * U2 + lane]
        v_1 = floats[layout.RECORD + 16 * V1 + lane]
        v_2 = floats[layout.RECORD + 16 * V2 + lane]
        floats[layout.TEX_U + lane] = floats[layout.RECORD + 16 * U0 + lane] + u * u_1 + v * u_2
        floats[layout.TEX_V + lane] = floats[layout.RECORD + 16 * V0 + lane] + u * v_1 + v * v_2
    for lane in range(16):
        nx = floats[layout.NORMAL + lane]
        ny = floats[layout.NORMAL + 16 + lane]
        nz = floats[layout.NORMAL + 32 + lane]
        dx = floats[layout.DIRECTION + lane]
        dy = floats[layout.DIRECTION + 16 + lane]
        dz = floats[layout.DIRECTION + 32 + lane]
        t = np.float32(1.0) if is_parallel else floats[layout.FAR + lane]
        over = np.float32(1.0) / (nx * dx + ny * dy + nz * dz)
        slope_a = (nx * ax + ny * ay + nz * az) * over
        slope_b = (nx * bx + ny * by + nz * bz) * over
        px = t * (ax - dx * slope_a)
        py = t * (ay - dy * slope_a)
        pz = t * (az - dz * slope_a)
        qx = t * (bx - dx * slope_b)
        qy = t * (by - dy * slope_b)
        qz = t * (bz - dz * slope_b)
        gx = floats[layout.RECORD + 16 * GRADIENT_U + lane]
        gy = floats[layout.RECORD + 16 * (GRADIENT_U + 1) + lane]
        gz = floats[layout.RECORD + 16 * (GRADIENT_U + 2) + lane]
        hx = floats[layout.RECORD + 16 * GRADIENT_V + lane]
        hy = floats[layout.RECORD + 16 * (GRADIENT_V + 1) + lane]
        hz = floats[layout.RECORD + 16 * (GRADIENT_V + 2) + lane]
        u_a = gx * px + gy * py + gz * pz
        v_a = hx * px + hy * py + hz * pz
        u_b = gx * qx + gy * qy + gz * qz
        v_b = hx * qx + hy * qy + hz * qz
        floats[layout.FOOTPRINT + lane] = max(u_a * u_a + v_a * v_a, u_b * u_b + v_b * v_b)


@njit(**INNER, fastmath={"contract"})
def find_levels(packet: np.ndarray, floats: np.ndarray, size: int) -> None:
    """Write the mip levels at which the footprints' longer axes are one texel: whole part and fraction.

    Level 0 has ``size`` texels per side.
    """
    top = int(np.log2(np.float32(size)) + np.float32(0.5))
    # An IEEE 754 float32 2^e (1 + f), 0 <= f < 1, has the word (127 + e + f) 2^23. log2(1 + f) is approximated by
    # f + f (1 - f) q(f), which is exact at both ends. The cubic q is the least-squares fit to
    # (log2(1 + f) - f) / (f (1 - f)) at even steps of f from 0 to 1. The error of the logarithm is at most LOG2_ERROR,
    # and that of a level half as large.
    unit = np.float32(2.0**-23)
    one = np.float32(1.0)
    half = np.float32(0.5)
    c0 = np.float32(0.44225257)
    c1 = np.float32(-0.26888844)
    c2 = np.float32(0.15027362)
    c3 = np.float32(-0.04530342)
    for lane in range(16):
        word = packet[layout.FOOTPRINT + lane] & np.int32(0x7FFFFFFF)  # NaN counts as infinite
        f = np.float32(word & np.int32(0x7FFFFF)) * unit
        curve = f * (one - f) * (c0 + f * (c1 + f * (c2 + f * c3)))
        level = half * (np.float32(word) * unit - np.float32(127.0) + curve) + np.float32(top)
        level = min(max(level, np.float32(0.0)), np.float32(top))
        fine = np.int32(level)
        packet[layout.LEVEL + lane] = fine
        floats[layout.BLEND + lane] = level - np.float32(fine)


@njit(**INNER)
def find_texels(packet: np.ndarray, floats: np.ndarray, size: int, num_textures: int, modes: np.ndarray | None) -> None:
    """Write the indices of the 2x2 texels around the texture coordinates on two mip levels, and the positions between.

    Surfaces without a texture get indices of the first texture. ``modes`` is the packet once more, or None if all
    textures repeat and are interpolated.
    """
    one = np.int32(1)
    whole = np.int32(size)
    count = np.int32(4 * num_textures)
    for k in range(2):
        for lane in range(16):
            # Every intermediate value is cast to int32, twice as many of which fit a vector register as of int64.
            side = max(np.int32(whole >> np.int32(packet[layout.LEVEL + lane] + k)), one)
            square = np.int32(side * side)
            texture = max(packet[layout.TEXTURE + lane], np.int32(0))
            # This is level_starts[level] in closed form, since reading a table lane by lane makes colours 5% slower.
            # The levels before hold size^2 + (size / 2)^2 + ... + (2 side)^2 texels. The difference of two powers of
            # four is a run of ones in binary, in which every second bit is one of the powers between them.
            before = np.int32(np.int32(np.int32(whole * whole) - square) & np.int32(0x55555555))
            start = np.int32(np.int32(count * before) + np.int32(texture * square))
            mode_u = REPEATING
            mode_v = REPEATING
            if modes is not None:
                mode_u = modes[layout.WRAP_U + lane]
                mode_v = modes[layout.WRAP_V + lane]
            x0, x1, across = neighbours(floats[layout.TEX_U + lane], side, mode_u, side == whole)
            y0, y1, down = neighbours(floats[layout.TEX_V + lane], side, mode_v, side == whole)
            row_0 = np.int32(start + np.int32(side * y0))
            row_1 = np.int32(start + np.int32(side * y1))
            packet[layout.TEXELS + 64 * k + lane] = row_0 + x0
            packet[layout.TEXELS + 64 * k + 16 + lane] = row_0 + x1
            packet[layout.TEXELS + 64 * k + 32 + lane] = row_1 + x0
            packet[layout.TEXELS + 64 * k + 48 + lane] = row_1 + x1
            floats[layout.FRACTION + 32 * k + lane] = across
            floats[layout.FRACTION + 32 * k + 16 + lane] = down


@njit(**INNER)
def neighbours(at: np.float32, side: np.int32, mode: np.int32, finest: bool) -> tuple[np.int32, np.int32, np.float32]:
    """Return the two texels along an axis around a texture coordinate, and its position between them from 0 to 1.

    ``mode`` is the way of wrapping, plus NEAREST_BIT, which on the finest level makes the position 0 or 1.
    """
    x = at * np.float32(side) - np.float32(0.5)
    before = np.floor(x)
    first = np.int32(before)
    within = x - before
    nearer = np.float32(1.0) if within >= np.float32(0.5) else np.float32(0.0)
    position = nearer if finest and mode >= NEAREST_BIT else within
    wrap = np.int32(mode & np.int32(NEAREST_BIT - 1))
    return wrap_texel(first, side, wrap), wrap_texel(np.int32(first + 1), side, wrap), position


@njit(**SMALL)
def wrap_texel(texel: np.int32, side: np.int32, mode: np.int32) -> np.int32:
    """Return a texel's row or column wrapped into the texture; ``side`` is a power of two."""
    last = np.int32(side - 1)
    twice_last = np.int32(2 * side - 1)
    turned = np.int32(texel & twice_last)
    mirrored = min(turned, np.int32(twice_last - turned))
    clamped = min(max(texel, np.int32(0)), last)
    return np.int32(texel & last) if mode == REPEAT else mirrored if mode == MIRROR else clamped


@njit(**SMALL)
def unsigned(index: np.int32) -> np.uint32:
    """Return an index that is not negative as an unsigned one, for which Numba generates no test of the sign."""
    return np.uint32(index)


@njit(**SMALL)
def read_texels(packet: np.ndarray, texels: np.ndarray) -> None:
    """Replace each texel index by the texel that it points to."""
    for k in range(layout.TEXELS, layout.TEXELS + 128):
        packet[k] = texels[unsigned(packet[k])]


@njit(**INNER, fastmath={"contract"})
def blend_texels(packet: np.ndarray, floats: np.ndarray) -> None:
    """Write the colours of the textures, interpolated between texels and levels; uses up the texels.

    The byte of a channel is always the lowest, since loops that shift by a variable are two to four times as slow.
    """
    for channel in range(3):
        for k in range(128):
            floats[layout.DECODED + k] = _decode(packet[layout.TEXELS + k])
        for k in range(layout.TEXELS, layout.TEXELS + 128):
            packet[k] = np.int32(packet[k] >> 8)
        for lane in range(16):
            fine = _interpolated(floats, lane, 0)
            coarse = _interpolated(floats, lane, 1)
            floats[layout.COLOR + 16 * channel + lane] = fine + floats[layout.BLEND + lane] * (coarse - fine)


@njit(**SMALL)  # its caller contracts
def _interpolated(floats: np.ndarray, lane: int, level: int) -> np.float32:
    """Return the linear light of a lane between the texels of the finer level, 0, or the coarser, 1."""
    across = floats[layout.FRACTION + 32 * level + lane]
    down = floats[layout.FRACTION + 32 * level + 16 + lane]
    texel = layout.DECODED + 64 * level + lane
    upper_left = floats[texel]
    lower_left = floats[texel + 32]
    upper = upper_left + across * (floats[texel + 16] - upper_left)
    lower = lower_left + across * (floats[texel + 48] - lower_left)
    return upper + down * (lower - upper)


@njit(**SMALL)
def _decode(word: int) -> np.float32:
    """Return the linear light of the sRGB byte in the lowest bits of a word, within 0.06 bytes of the standard."""
    x = np.float32(np.int32(word & 255))
    high = np.float32(8.69535938e-6) + x * (np.float32(3.11034159e-8) - x * np.float32(2.59801520e-11))
    curve = np.float32(1.07954304e-3) + x * (np.float32(1.08305507e-4) + x * high)
    return curve if x > np.float32(10.5) else x * np.float32(1 / 255 / 12.92)


@njit(**INNER, fastmath={"contract"})
def finish_colors(packet: np.ndarray, floats: np.ndarray, steps: np.float32) -> None:
    """Write the products of light, factor, vertex colour and texture, as integers from 0 to ``steps``."""
    one = np.float32(1.0)
    half = np.float32(0.5)
    for channel in range(3):
        for lane in range(16):
            u = floats[layout.U + lane]
            v = floats[layout.V + lane]
            color_0 = packet[layout.CORNERS + lane] >> (8 * channel)
            color_1 = packet[layout.CORNERS + 16 + lane] >> (8 * channel)
            color_2 = packet[layout.CORNERS + 32 + lane] >> (8 * channel)
            mixed = (one - u - v) * np.float32(np.int32(color_0 & 255))
            mixed += u * np.float32(np.int32(color_1 & 255)) + v * np.float32(np.int32(color_2 & 255))
            factor = floats[layout.FACTOR + 16 * channel + lane]
            light = floats[layout.LIGHT + lane] * factor * mixed * (steps * np.float32(1 / 255))
            texture = floats[layout.COLOR + 16 * channel + lane] if packet[layout.TEXTURE + lane] >= 0 else one
            color = light * texture
            color = min(color, steps) if color > np.float32(0.0) else np.float32(0.0)  # 0 for NaN
            packet[layout.SHOWN_RGB + 16 * channel + lane] = np.int32(color + half)


@njit(**INNER)
def shade_hits(packets: np.ndarray, floats: np.ndarray, light: np.ndarray, shading: Shading, slot: np.record) -> None:
    """Write the colours of the surfaces that the rays of some packets have hit.

    Each stage runs over all packets, so that the processor can load the data of one packet while it computes another.
    ``light`` [3] points towards the light, and ``slot`` is the SLOT of the scene.
    """
    texels = carray(pointer(slot.texels), (slot.num_textures * shading.size * shading.size * 2,), np.int32)
    textured = False
    for k in range(len(packets)):
        find_light(floats[k], light, shading.brightness)
        address = packets[k].ctypes.data
        read_appearance(address, slot.triangles, address + 4 * layout.TRIANGLE)
        read_material(address, slot.materials, address + 4 * layout.MATERIAL)
        textured |= any_textured(packets[k])
    if textured:
        for k in range(len(packets)):
            address = packets[k].ctypes.data
            read_mapping(address, slot.triangles, address + 4 * layout.TRIANGLE)
            find_footprints(floats[k])
            find_levels(packets[k], floats[k], shading.size)
            if all_repeat(packets[k]):
                find_texels(packets[k], floats[k], shading.size, slot.num_textures, None)
            else:
                find_texels(packets[k], floats[k], shading.size, slot.num_textures, packets[k])
            fetch_texels(packets[k], slot.texels)
        for k in range(len(packets)):
            read_texels(packets[k], texels)
            blend_texels(packets[k], floats[k])
    for k in range(len(packets)):
        finish_colors(packets[k], floats[k], np.float32(len(shading.encode) - 1))
