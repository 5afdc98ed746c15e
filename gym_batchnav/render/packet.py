"""Packets of 4x4 rays as Embree takes them, and the kernels that aim and trace them.

A packet is one array of 4-byte words, sixteen of each kind: Embree's RTCRayHit16, the flags that say which rays are
traced, and room for what shading finds. Kernels take it twice, as int32 and as float32.
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
STEP_X, STEP_Y, SHINE, RED, GREEN, BLUE, ALPHA = 352, 400, 448, 464, 480, 496, 512
_WORDS = 528
NOTHING = np.int32(-1)


def _void_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate the code of ``pointer``."""
    return builder.inttoptr(args[0], ir.IntType(8).as_pointer())


def _call_intersect16(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate the code of ``intersect16``."""
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


def _type_intersect16(typing_context: Any, function: Any, active: Any, tree: Any, packet: Any, arguments: Any) -> Any:
    """Call rtcIntersect16, all five given as addresses."""
    return types.void(*[types.intp] * 5), _call_intersect16


# Any: Numba's own annotations give an intrinsic the typing context as a parameter.
pointer: Any = intrinsic(_type_pointer)
intersect16: Any = intrinsic(_type_intersect16)


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
    packet[MASK : MASK + 16] = -1
    wake(packet, floats, near)


@njit(cache=True, nogil=True)
def wake(packet: np.ndarray, floats: np.ndarray, near: np.float32) -> None:
    """Make all sixteen rays take part, from the near plane."""
    for lane in range(16):
        floats[NEAR + lane] = near
        packet[ACTIVE + lane] = -1


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
