"""Packets of 4x4 rays as Embree takes them, and the kernels that aim and trace them.

A packet is one array of 4-byte words, sixteen of each kind: Embree's RTCRayHit16, the flags that say which rays are
traced, the arguments of the call, and room for what shading finds. Kernels take it twice, as int32 and as float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Where the sixteen words of each kind start; of vectors, x, y and z follow each other.
ORIGIN, NEAR, DIRECTION, FAR, MASK, NORMAL = 0, 48, 64, 128, 144, 192
U, V, TRIANGLE, HIT, ACTIVE = 240, 256, 272, 288, 336
# The arguments of rtcIntersect, then the context that they point to: ids of the instance, five int64 that say how
# the slot's surfaces are found, and the camera's axes, a pixel long.
ARGUMENTS, CONTEXT, AXES = 352, 368, 384
CONTEXT_FIELDS = 5
CONTEXT_TRIANGLES, CONTEXT_MATERIALS, CONTEXT_TEXELS, CONTEXT_TEXTURES, CONTEXT_SIZE = range(CONTEXT_FIELDS)
# What shading finds, as float32: the first words of the triangles' records (see surface.py) and the colours of the
# materials, texture coordinates, light, the place between texels of two mip levels, the colours of the textures, how
# far the level is to the next, and the square of the footprint's longer axis. Then as int32: the mip level, the
# colours of the corners, the texture and its wrap modes, four texels of two levels, and the colour that is shown.
# LLVM makes vectors of a loop over lanes only if the words that it takes as float32 all come before those that it takes
# as int32, or after them: it must see that they do not overlap.
RECORD, FACTOR, AT_U, AT_V, SHINE, WITHIN, COLOR, BLEND, SQUARE = 400, 592, 640, 656, 672, 688, 752, 800, 816
LEVEL, CORNERS, TEXTURE, WRAP_U, WRAP_V, TEXELS, SHOWN = 832, 848, 896, 912, 928, 944, 1072
_WORDS = 1120
_RAY_ROWS, _FIRST_HIT_ROW, _LAST_HIT_ROW = 21, 12, 18  # rows of words in RTCRayHit16; the last ones are of instances
NOTHING = np.int32(-1)
_COHERENT, _ALL_FEATURES = np.int32(1 << 16), np.int32(-1)  # of RTCIntersectArguments


def _void_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate the code of ``pointer``."""
    return builder.inttoptr(args[0], ir.IntType(8).as_pointer())


def _call_intersect(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate the code of ``_call``."""
    byte_pointer = ir.IntType(8).as_pointer()
    function_type = ir.FunctionType(ir.VoidType(), [byte_pointer] * 4).as_pointer()
    function, *pointers = args
    builder.call(
        builder.inttoptr(function, function_type), [builder.inttoptr(address, byte_pointer) for address in pointers]
    )
    return context.get_dummy_value()


def _type_pointer(typing_context: Any, address: Any) -> Any:
    """An address as the pointer that numba.carray takes."""
    return types.voidptr(types.intp), _void_pointer


def _type_intersect(typing_context: Any, function: Any, active: Any, tree: Any, packet: Any, arguments: Any) -> Any:
    """Call one of the rtcIntersect functions, all five given as addresses."""
    return types.void(*[types.intp] * 5), _call_intersect


# Any: Numba's own annotations give an intrinsic the typing context as a parameter.
pointer: Any = intrinsic(_type_pointer)
_call: Any = intrinsic(_type_intersect)


@njit(cache=True, nogil=True)
def new_packet() -> np.ndarray:
    """[_WORDS] int32 on a 64-byte boundary, as Embree wants it."""
    buffer = np.empty(_WORDS + 16, np.int32)
    start = (-(buffer.ctypes.data // 4)) % 16
    return buffer[start : start + _WORDS]


@njit(cache=True, nogil=True)
def start_view(packet: np.ndarray, floats: np.ndarray, view: np.ndarray, near: np.float32) -> None:
    """Write what all packets of a view share."""
    packet[:] = 0
    for axis in range(3):
        origin = 0.0
        for row in range(3):
            origin -= np.float64(view[row, axis]) * np.float64(view[row, 3])
        floats[ORIGIN + 16 * axis : ORIGIN + 16 * axis + 16] = np.float32(origin)
    floats[NEAR : NEAR + 16] = near
    packet[MASK : MASK + 16] = -1
    packet[ACTIVE : ACTIVE + 16] = -1
    packet[ARGUMENTS], packet[ARGUMENTS + 1] = _COHERENT, _ALL_FEATURES


@njit(cache=True, nogil=True)
def filter_hits(
    packet: np.ndarray, floats: np.ndarray, axes: np.ndarray, hit_filter: int, surfaces: np.ndarray
) -> None:
    """Have Embree ask ``hit_filter`` about every hit on a surface that rays may pass through.

    Args:
        packet: The packet as int32.
        floats: The packet as float32.
        axes: [2, 3] float32, the camera's axes to the right and up, a pixel long.
        hit_filter: Address of the filter.
        surfaces: [CONTEXT_FIELDS] int64 for its context.
    """
    wide = packet.view(np.int64)
    wide[ARGUMENTS // 2 + 1] = packet.ctypes.data + 4 * CONTEXT
    wide[ARGUMENTS // 2 + 2] = hit_filter
    packet[CONTEXT], packet[CONTEXT + 1] = -1, -1  # no instance
    wide[CONTEXT // 2 + 2 : CONTEXT // 2 + 2 + CONTEXT_FIELDS] = surfaces
    for axis in range(2):
        for k in range(3):
            floats[AXES + 3 * axis + k] = axes[axis, k]


@njit(cache=True, nogil=True)
def aim(
    packet: np.ndarray,
    floats: np.ndarray,
    view: np.ndarray,
    x: int,
    y: int,
    left: np.float32,
    top: np.float32,
    pixel: np.float32,
    far: np.float32,
) -> None:
    """Aim the rays through the centres of 4x4 pixels from (x, y).

    Directions are one long along the view axis, so that the distance along the ray is planar depth. Rays beyond the
    picture's edge are traced too and not read.
    """
    half = np.float32(0.5)
    rx, ry, rz = view[0, 0], view[0, 1], view[0, 2]
    ux, uy, uz = view[1, 0], view[1, 1], view[1, 2]
    bx, by, bz = view[2, 0], view[2, 1], view[2, 2]
    for lane in range(16):
        right = left + (np.float32(x + (lane & 3)) + half) * pixel
        up = top - (np.float32(y + (lane >> 2)) + half) * pixel
        floats[DIRECTION + lane] = right * rx + up * ux - bx
        floats[DIRECTION + 16 + lane] = right * ry + up * uy - by
        floats[DIRECTION + 32 + lane] = right * rz + up * uz - bz
        floats[FAR + lane] = far
        packet[HIT + lane] = NOTHING


@njit(cache=True, nogil=True)
def intersect(function: int, width: int, tree: int, packet: np.ndarray, narrow: np.ndarray) -> None:
    """Trace the sixteen rays of a packet, ``width`` at a time.

    Args:
        function: Address of rtcIntersect16, rtcIntersect8 or rtcIntersect4.
        width: The rays that it takes, 16, 8 or 4.
        tree: Address of the RTCScene.
        packet: The packet as int32.
        narrow: Another packet, of which nothing is kept.
    """
    address = packet.ctypes.data
    active, arguments = address + 4 * ACTIVE, address + 4 * ARGUMENTS
    if width == 16:
        _call(function, active, tree, address, arguments)
        return
    for first in range(0, 16, width):
        for row in range(_RAY_ROWS):
            for lane in range(width):
                narrow[row * width + lane] = packet[row * 16 + first + lane]
        _call(function, active, tree, narrow.ctypes.data, arguments)
        for lane in range(width):
            packet[FAR + first + lane] = narrow[FAR // 16 * width + lane]
        for row in range(_FIRST_HIT_ROW, _LAST_HIT_ROW + 1):
            for lane in range(width):
                packet[row * 16 + first + lane] = narrow[row * width + lane]
