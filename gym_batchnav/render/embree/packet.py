"""Packets of 4x4 rays in Embree's layout, and the kernels that make and trace them.

A packet is one array of 4-byte words in rows of sixteen, one word per ray: Embree's RTCRayHit16 (rtcore_ray.h), the
flags of active rays, the arguments of the call, and scratch space for shading. Kernels take two views of it: ``packet``
is of int32 and ``floats`` of float32. ``packets`` and ``floats`` [P, words] are those of several.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gym_batchnav.render import records
from gym_batchnav.system.jit import INNER, SMALL

LANES = 16


class _Rows:
    """An allocator of consecutive rows of sixteen words, so that no offset is a literal."""

    words = 0  # allocated so far

    def take(self, rows: int = 1) -> int:
        """Allocate rows and return their first word; a vector takes one row per component."""
        first = self.words
        self.words += LANES * rows
        return first


_rows = _Rows()
# RTCRayHit16: the ray, then the hit.
ORIGIN = _rows.take(3)
NEAR = _rows.take()
DIRECTION = _rows.take(3)
_TIME = _rows.take()
FAR = _rows.take()  # the distance, if something is hit
MASK = _rows.take()
_RAY_ID = _rows.take()
_RAY_FLAGS = _rows.take()
NORMAL = _rows.take(3)  # of the triangle, not of unit length
U = _rows.take()
V = _rows.take()
TRIANGLE = _rows.take()  # primID
HIT = _rows.take()  # geomID, NOTHING if nothing is hit
_INSTANCE = _rows.take()
_INSTANCE_TRIANGLE = _rows.take()
_RAY_HIT_WORDS = _rows.words
ACTIVE = _rows.take()
# RTCIntersectArguments, then the RTCRayQueryContext that it points to: the ids of the instance, the Surfaces of the
# slot, and AXES: how rays change to the next pixel on the right and above.
ARGUMENTS = _rows.take()
CONTEXT = _rows.take()
AXES = _rows.take()
PARALLEL = AXES + 6  # 1 if rays are parallel, as float32
# Scratch, float32, all before that of int32: LLVM vectorises a loop over lanes only if it can see that the words of the
# two types do not overlap.
RECORD = _rows.take(12)  # the first words of the triangles' records, see records.py
DECODED = RECORD  # then the linear light of one channel of the texels, in eight rows
FACTOR = _rows.take(3)  # RGB of the materials
TEX_U = _rows.take()  # texture coordinates
TEX_V = _rows.take()
LIGHT = _rows.take()  # light
FRACTION = _rows.take(4)  # position between texels along u and v, on two mip levels
BLEND = _rows.take()  # from the finer mip level, 0, to the coarser, 1
COLOR = _rows.take(3)  # RGB of the textures
FOOTPRINT = _rows.take()  # square of its longer axis; declared last, since one loop reads its words as int32
# Scratch, int32.
LEVEL = _rows.take()  # the finer of the two mip levels
CORNERS = _rows.take(3)  # RGBA bytes of the triangles' corners
MATERIAL = _rows.take()  # rows
TEXTURE = _rows.take()
WRAP_U = _rows.take()
WRAP_V = _rows.take()
TEXELS = _rows.take(8)  # 2x2 texels of two mip levels: first their indices, then their RGBA bytes
SHOWN_RGB = _rows.take(3)  # RGB in steps of linear light
_WORDS = _rows.words

NOTHING = np.int32(-1)
COHERENT = np.int32(1 << 16)  # of RTCIntersectArguments
ALL_FEATURES = np.int32(-1)


class Surfaces(NamedTuple):
    """Addresses of a slot's surfaces for the filter of masked triangles; stored after Embree's own context."""

    triangles: int  # address of the records
    materials: int  # address of the records
    texels: int  # address of the pool
    num_textures: int
    last_level: int  # the mip level of a single texel
    level_starts: np.int64  # address of the table, see textures.level_starts


_OWN_CONTEXT_WORDS = 4  # the ids of the instance, padded to 16 bytes
SURFACES_BYTE = 4 * _OWN_CONTEXT_WORDS  # offset of the Surfaces in the context
SURFACES_FIELDS = len(Surfaces._fields)
assert _OWN_CONTEXT_WORDS + 2 * SURFACES_FIELDS <= LANES, "the context must not overlap the axes"


def _call_intersect(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    byte_pointer = ir.IntType(8).as_pointer()
    function_type = ir.FunctionType(ir.VoidType(), [byte_pointer] * 4).as_pointer()
    function, *pointers = args
    builder.call(
        builder.inttoptr(function, function_type), [builder.inttoptr(address, byte_pointer) for address in pointers]
    )
    return context.get_dummy_value()


def _prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    byte_pointer = ir.IntType(8).as_pointer()
    flag = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
    function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
    read, keep, data = ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)
    builder.call(function, [builder.inttoptr(args[0], byte_pointer), read, keep, data])
    return context.get_dummy_value()


def _type_prefetch(typing_context: Any, address: Any) -> Any:
    """Ask the processor to load the cache line at an address."""
    return types.void(types.intp), _prefetch


def _type_pointer(typing_context: Any, address: Any) -> Any:
    """Convert an address to the pointer that numba.carray takes."""
    as_pointer = ir.IntType(8).as_pointer()
    return types.voidptr(types.intp), lambda _context, builder, _signature, args: builder.inttoptr(args[0], as_pointer)


def _make_copy(words: int) -> Any:
    """Return an intrinsic ``(to, source)`` that copies 4-byte words with one vector load and one store."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(32), words).as_pointer()
        to, source = (builder.inttoptr(address, kind) for address in args)
        builder.store(builder.load(source, align=4), to, align=4)
        return context.get_dummy_value()

    def copy(typing_context: Any, to: Any, source: Any) -> Any:
        return types.void(types.intp, types.intp), generate

    return intrinsic(copy)


def _make_read(record_words: int, rows: dict[int, int]) -> Any:
    """Return an intrinsic that reads words of sixteen records into rows of a packet.

    Records are loaded as vectors of eight words, and eight of them are transposed in registers: vector loads of rows
    that were stored word by word would wait for every single store.

    ``record_words`` is the size of a record, a multiple of eight; ``rows`` has the packet's row of every word to read.
    The arguments of the intrinsic ``(packet, records, indices)`` are addresses: of the packet, of the records, and of
    sixteen int32, the records' indices, none of which is negative.
    """
    low = ([0, 8, 1, 9, 4, 12, 5, 13], [0, 1, 8, 9, 4, 5, 12, 13], [0, 1, 2, 3, 8, 9, 10, 11])
    high = ([2, 10, 3, 11, 6, 14, 7, 15], [2, 3, 10, 11, 6, 7, 14, 15], [4, 5, 6, 7, 12, 13, 14, 15])
    order = (0, 2, 1, 3, 4, 6, 5, 7)  # the words of a block of eight in the order in which the merges leave them
    word = ir.IntType(32)
    vector = ir.VectorType(word, 8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packet, records, indices = args

        def at(address: Any, offset: Any, kind: Any) -> Any:
            return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

        def byte(offset: int) -> Any:
            return ir.Constant(packet.type, offset)

        def merge(a: Any, b: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(a, b, ir.Constant(vector, lanes))

        for half in (0, 8):
            starts = []
            for lane in range(half, half + 8):
                index = builder.zext(builder.load(at(indices, byte(4 * lane), word), align=4), packet.type)
                starts.append(builder.mul(index, byte(4 * record_words)))
            for first in sorted({row // 8 * 8 for row in rows}):
                v = [
                    builder.load(at(records, builder.add(at_record, byte(4 * first)), vector), align=4)
                    for at_record in starts
                ]
                for stage, apart in enumerate((1, 2, 4)):
                    pairs = [(k, k + apart) for k in range(8) if not k & apart]
                    merged = {}
                    for a, b in pairs:
                        merged[a] = merge(v[a], v[b], low[stage])
                        merged[b] = merge(v[a], v[b], high[stage])
                    v = [merged[k] for k in range(8)]
                for k, column in zip(order, v, strict=True):
                    if first + k in rows:
                        builder.store(column, at(packet, byte(4 * (rows[first + k] + half)), vector), align=4)
        return context.get_dummy_value()

    def read(typing_context: Any, packet: Any, records: Any, indices: Any) -> Any:
        return types.void(types.intp, types.intp, types.intp), generate

    return intrinsic(read)


def _type_intersect(typing_context: Any, function: Any, active: Any, tree: Any, packet: Any, arguments: Any) -> Any:
    """Call one of the rtcIntersect functions; all five arguments are addresses."""
    return types.void(*[types.intp] * 5), _call_intersect


# Typed as Any, since Numba's own annotations give an intrinsic the typing context as a parameter.
pointer: Any = intrinsic(_type_pointer)
_call: Any = intrinsic(_type_intersect)
prefetch: Any = intrinsic(_type_prefetch)
_copy_8: Any = _make_copy(8)
_copy_4: Any = _make_copy(4)
read_appearance: Any = _make_read(
    records.TRIANGLE_WORDS,
    {records.MATERIAL: MATERIAL} | {records.COLOR + k: CORNERS + 16 * k for k in range(3)},
)
read_mapping: Any = _make_read(records.TRIANGLE_WORDS, {word: RECORD + 16 * word for word in range(records.COLOR)})
read_material: Any = _make_read(
    records.MATERIAL_WORDS,
    {records.FACTOR + k: FACTOR + 16 * k for k in range(3)}
    | {records.TEXTURE: TEXTURE, records.WRAP_U: WRAP_U, records.WRAP_V: WRAP_V},
)


@njit(**INNER)
def new_packets(count: int) -> np.ndarray:
    """Return empty packets [count, _WORDS] int32 on 64-byte boundaries, as Embree requires."""
    buffer = np.empty(count * _WORDS + 16, np.int32)
    start = (-(buffer.ctypes.data // 4)) % 16
    return buffer[start : start + count * _WORDS].reshape(count, _WORDS)


@njit(**SMALL)
def filter_hits(packet: np.ndarray, hit_filter: int, surfaces: Surfaces) -> None:
    """Make Embree call the function at address ``hit_filter`` for every hit on a surface that rays may pass through."""
    wide = packet.view(np.int64)
    wide[ARGUMENTS // 2 + 1] = packet.ctypes.data + 4 * CONTEXT
    wide[ARGUMENTS // 2 + 2] = hit_filter
    packet[CONTEXT] = NOTHING  # no instance
    packet[CONTEXT + 1] = NOTHING
    for k in range(SURFACES_FIELDS):
        wide[(CONTEXT + _OWN_CONTEXT_WORDS) // 2 + k] = surfaces[k]


@njit(**SMALL)
def _copy_lanes(to: int, source: int, width: int) -> None:
    """Copy 8 or 4 words between two addresses as a vector: Embree's vector loads would wait for single words."""
    if width == 8:
        _copy_8(to, source)
    else:
        _copy_4(to, source)


@njit(**INNER)
def intersect(function: int, width: int, tree: int, packet: np.ndarray, scratch: np.ndarray) -> None:
    """Trace the rays of a packet, ``width`` (16, 8 or 4) at a time, by the rtcIntersect function at an address.

    ``tree`` is the address of the RTCScene, and ``scratch`` another packet, for functions that take fewer than 16 rays.
    """
    address = packet.ctypes.data
    active = address + 4 * ACTIVE
    arguments = address + 4 * ARGUMENTS
    if width == 16:
        _call(function, active, tree, address, arguments)
        return
    part = scratch.ctypes.data
    for first in range(0, 16, width):
        lanes = address + 4 * first
        for row in range(_RAY_HIT_WORDS // LANES):
            _copy_lanes(part + 4 * width * row, lanes + 64 * row, width)
        _call(function, active, tree, part, arguments)
        _copy_lanes(lanes + 4 * FAR, part + 4 * width * (FAR // 16), width)
        for row in range(NORMAL // LANES, HIT // LANES + 1):
            _copy_lanes(lanes + 64 * row, part + 4 * width * row, width)
