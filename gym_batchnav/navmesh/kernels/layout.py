"""Declarations of the arrays that kernels read: dtype, shape and the array that their integers index.

A slot's arrays form five parts: ``Ground``, ``Corners``, ``Cells``, ``Goals`` and ``Drops``. Kernels that serve many
slots get one row of int64 per slot, which holds the address and the first two dimensions of every array. The readers
``ground_at``, ``corners_at``, ``cells_at``, ``goals_at`` and ``drops_at``, the length of a row and the checks of cached
arrays all follow from these declarations. The owner of a row keeps its arrays alive as long as kernels may read it.

Sizes in declarations: P polygons, I islands, T detail triangles, C corners, F polygons around corners, E taut edges,
Q pieces, L listed corners, G goals, H sets of goals, V lines of sight from goals to corners, S nodes of the visible
floor. Any other letter is a size with no further meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

COLUMNS = 3  # entries of a row per array: the address and the first two dimensions
GRID_CELL_COLUMN = 2  # index of the cell size in a frame


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of one array."""

    dtype: type
    shape: tuple[str | int, ...]  # names of sizes ("P" or "P + 1") or fixed numbers; all but the first two are fixed
    index: tuple[str, ...] = ()  # size that bounds its integers, or one per item of the last axis; () without indices
    least: int = 0  # smallest integer allowed; -1 means none
    complement: bool = False  # whether indices may also be complemented (~index)
    starts: str = ""  # if it holds the first row of every group: the size to which its integers rise from 0
    distance: bool = False  # whether its values are distances from 0 to infinity; all other values must be finite
    last_row_ends: bool = False  # whether the last row only ends the row before it: its first item is not read


def _array(dtype: type, *shape: str | int, index: str | tuple[str, ...] = (), **keywords: Any) -> Declared:
    return Declared(dtype, shape, (index,) if isinstance(index, str) else index, **keywords)


class Ground(NamedTuple):
    """The polygons of one navmesh: all that motion needs."""

    outline: Annotated[np.ndarray, _array(np.float64, "P", 6, 2)]  # x and z of every polygon's vertices, metres
    heights: Annotated[np.ndarray, _array(np.float32, "P", 6)]  # y of every polygon's vertices, metres
    num_vertices: Annotated[np.ndarray, _array(np.int32, "P", index="7", least=3)]  # of every polygon
    neighbours: Annotated[np.ndarray, _array(np.int32, "P", 6, index="P", least=-1)]  # across every edge, -1 for a wall
    islands: Annotated[np.ndarray, _array(np.int32, "P", index="P")]
    surface: Annotated[np.ndarray, _array(np.float64, "T", 3, 3)]  # corners of the detail triangles, metres
    surface_start: Annotated[np.ndarray, _array(np.int32, "P + 1", starts="T")]  # rows of surface
    boxes: Annotated[np.ndarray, _array(np.float32, "P", 2, 3)]  # smallest and largest corner, metres
    grid: Annotated[np.ndarray, _array(np.int32, "NZ", "NX", 2, index="M + 1")]  # begin and end in grid_polygons
    grid_polygons: Annotated[np.ndarray, _array(np.int32, "M", index="P")]  # polygons whose box touches a cell
    frame: Annotated[np.ndarray, _array(np.float64, 5)]  # grid origin x and z, grid cell, highest climb, islands


class Corners(NamedTuple):
    """The corners of one navmesh and the graph of taut lines between them."""

    point: Annotated[np.ndarray, _array(np.float64, "C", 3)]  # metres
    walls: Annotated[np.ndarray, _array(np.float64, "C", 2, 2)]  # unit vectors (x, z) along the two walls of a corner
    corner_of: Annotated[np.ndarray, _array(np.int32, "P", 6, index="C", least=-1)]  # at every polygon's vertex
    fan_start: Annotated[np.ndarray, _array(np.int32, "C + 1", starts="F")]  # rows of fan
    fan: Annotated[np.ndarray, _array(np.int32, "F", 2, index=("P", "6"))]  # polygons around a corner and its vertex
    edge_start: Annotated[np.ndarray, _array(np.int32, "C + 1", starts="E")]  # rows of edges
    edges: Annotated[np.ndarray, _array(np.int32, "E", index="C")]  # corners that a corner sees along a taut line
    between: Annotated[
        np.ndarray, _array(np.float32, "C", "C", distance=True)
    ]  # shortest path, metres, inf across islands


class Cells(NamedTuple):
    """The corners that are visible from each polygon in each cell."""

    grid: Annotated[np.ndarray, _array(np.int32, "MZ", "MX", 2, index="Q + 1")]  # begin and end in pieces
    # Polygon and begin in listed; the end is the next row's begin.
    pieces: Annotated[np.ndarray, _array(np.int32, "Q + 1", 2, index=("P", "L + 1"), last_row_ends=True)]
    # Corners, complemented if only a part of the piece sees them.
    listed: Annotated[np.ndarray, _array(np.int32, "L", index="C", complement=True)]
    frame: Annotated[np.ndarray, _array(np.float64, 3)]  # origin x and z, cell


class Goals(NamedTuple):
    """The goals on one navmesh, in sets, and the distances of its corners to the nearest goal of every set."""

    point: Annotated[np.ndarray, _array(np.float32, "G", 3)]  # metres
    polygon: Annotated[np.ndarray, _array(np.int32, "G", index="P")]
    aim: Annotated[np.ndarray, _array(np.float64, "G", 2)]  # x and z of the goal, moved slightly inward
    first: Annotated[np.ndarray, _array(np.int32, "H + 1", starts="G")]  # first goal of every set
    field: Annotated[np.ndarray, _array(np.float32, "H", "C", distance=True)]  # metres, inf across islands
    seen: Annotated[np.ndarray, _array(np.bool_, "G", "P")]  # whether the goal sees some part of a polygon
    look_start: Annotated[np.ndarray, _array(np.int32, "G + 1", starts="V")]  # rows of looks
    looks: Annotated[np.ndarray, _array(np.int32, "V", index="C")]  # corners that a goal sees along a taut line


class Drops(NamedTuple):
    """The distance of the visible floor below the navmesh, at the nodes of one grid per polygon."""

    start: Annotated[np.ndarray, _array(np.int32, "P + 1", starts="S")]  # rows of drop
    size: Annotated[np.ndarray, _array(np.int32, "P", 2)]  # nodes along z and x of every polygon
    drop: Annotated[np.ndarray, _array(np.float32, "S")]  # metres, row by row along x; negative if the floor is higher
    cell: Annotated[np.ndarray, _array(np.float64, 1)]  # metres between nodes


class Point(NamedTuple):
    """A point or a vector in space."""

    x: float  # metres
    y: float  # metres
    z: float  # metres


class Spot(NamedTuple):
    """A point on a navmesh."""

    polygon: int
    x: float  # metres
    y: float  # metres
    z: float  # metres


PARTS = (Ground, Corners, Cells, Goals, Drops)  # in their order in a row


def declarations(part: Any) -> dict[str, Declared]:
    """Return the declarations of a part's arrays by name, in order."""
    hints = get_type_hints(part, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in part._fields}


def _first_array(part: Any) -> int:
    """Return the index of a part's first array among all arrays of a row."""
    return sum(len(other._fields) for other in PARTS[: PARTS.index(part)])


ROW_LENGTH = COLUMNS * sum(len(part._fields) for part in PARTS)
# Column of a row that holds the number of polygons, 0 in the row of an empty slot.
NUM_POLYGONS = COLUMNS * (_first_array(Ground) + Ground._fields.index("num_vertices")) + 1


def make_row(parts: Iterable[Any]) -> np.ndarray:
    """Return the row [ROW_LENGTH] int64 of a slot's parts, given in the order of ``PARTS``.

    Raises:
        ValueError: If an array's dtype or number of axes differs from its declaration, or it is not C-contiguous.
    """
    row: list[int] = []
    for part in parts:
        for (name, declared), array in zip(declarations(type(part)).items(), part, strict=True):
            if array.dtype != declared.dtype or array.ndim != len(declared.shape) or not array.flags.c_contiguous:
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape}: give a C-contiguous array of "
                    f"{np.dtype(declared.dtype)} with {len(declared.shape)} axes"
                )
            row += [array.ctypes.data, *(*array.shape, 1)[:2]]
    return np.array(row, np.int64)


def check_parts(*parts: Any) -> None:
    """Raise ValueError unless the arrays of these parts match their declarations and each other.

    Indices must lie within the array that they index, since kernels do not check bounds.
    """
    sizes: dict[str, int] = {}
    for part in parts:
        for (name, declared), array in zip(declarations(type(part)).items(), part, strict=True):
            _check_shape(f"{type(part).__name__} {name}", declared, array, sizes)
    for part in parts:
        for (name, declared), array in zip(declarations(type(part)).items(), part, strict=True):
            _check_content(f"{type(part).__name__} {name}", declared, array, sizes)
            if name == "frame" and not array[GRID_CELL_COLUMN] > 0:
                raise ValueError(f"{type(part).__name__} frame: {array}; its cell size must be positive")


def _check_shape(name: str, declared: Declared, array: np.ndarray, sizes: dict[str, int]) -> None:
    """Check dtype, layout and shape of an array, and record in ``sizes`` the sizes that it is the first to have."""
    fits = isinstance(array, np.ndarray) and array.dtype == declared.dtype and array.flags.c_contiguous
    fits = fits and array.ndim == len(declared.shape)
    for axis, size in enumerate(declared.shape):
        if fits and isinstance(size, str):
            letter, _, extra = size.partition(" + ")
            fits = sizes.setdefault(letter, array.shape[axis] - int(extra or 0)) == array.shape[axis] - int(extra or 0)
        elif fits:
            fits = array.shape[axis] == size
    if not fits:
        have = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        shape = ", ".join(str(size) for size in declared.shape)
        raise ValueError(f"{name} is {have}: give a C-contiguous array of {np.dtype(declared.dtype)} [{shape}]")


def _check_content(name: str, declared: Declared, array: np.ndarray, sizes: dict[str, int]) -> None:
    """Check the integers of an array against the sizes of the others, and that its numbers are finite."""
    if np.dtype(declared.dtype).kind == "f" and array.size:
        low = array.min()  # NaN if any item is; no copy of a large array
        high = array.max()
        if declared.distance and not low >= 0:
            raise ValueError(f"{name}: distances must not be negative, the smallest is {low}")
        if not declared.distance and not np.isfinite([low, high]).all():
            raise ValueError(f"{name}: values must be finite, they lie in [{low}, {high}]")
    if declared.starts:
        end = _size(declared.starts, sizes)
        if not (len(array) and array[0] == 0 and array[-1] == end and (np.diff(array) >= 0).all()):
            raise ValueError(f"{name}: values must rise from 0 to {end}")
    for column, size in enumerate(declared.index):
        values = array if len(declared.index) == 1 else array[..., column]
        end = _size(size, sizes)
        least = -end if declared.complement else declared.least
        if declared.last_row_ends and column == 0:
            values = values[:-1]
        if values.size and not (values.min() >= least and values.max() < end):
            raise ValueError(f"{name}: indices must lie in [{least}, {end}), not [{values.min()}, {values.max()}]")


def _size(size: str, sizes: dict[str, int]) -> int:
    letter, _, extra = size.partition(" + ")
    return (int(letter) if letter.isdigit() else sizes[letter]) + int(extra or 0)


def _reader(part: Any) -> Callable[..., Any]:
    """Make the Numba intrinsic that turns a row of addresses into a part with views as its arrays."""
    declared = tuple(declarations(part).values())
    first = _first_array(part)

    @intrinsic
    def read(typing_context: Any, row: Any) -> Any:
        arrays = [types.Array(from_dtype(np.dtype(each.dtype)), len(each.shape), "C") for each in declared]
        signature = types.NamedTuple(arrays, part)(row)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def word(value: int) -> Any:
                return context.get_constant(types.intp, value)

            row_data = make_array(signature.args[0])(context, builder, arguments[0]).data
            views = []
            for place, (each, kind) in enumerate(zip(declared, arrays, strict=True)):
                column = COLUMNS * (first + place)
                address, *sizes = (
                    builder.load(cgutils.gep(builder, row_data, word(column + k))) for k in range(COLUMNS)
                )
                shape = [word(size) if isinstance(size, int) else sizes[axis] for axis, size in enumerate(each.shape)]
                itemsize = word(np.dtype(each.dtype).itemsize)
                strides = [itemsize]
                for size in reversed(shape[1:]):
                    strides.insert(0, builder.mul(strides[0], size))
                view = make_array(kind)(context, builder)
                pointer = builder.inttoptr(address, view.data.type)
                populate_array(view, pointer, shape, strides, itemsize, meminfo=None)
                views.append(view._getvalue())
            return context.make_tuple(builder, signature.return_type, views)

        return signature, codegen

    return read


# Intrinsics ``(row)``, for kernels.
ground_at: Any = _reader(Ground)
corners_at: Any = _reader(Corners)
cells_at: Any = _reader(Cells)
goals_at: Any = _reader(Goals)
drops_at: Any = _reader(Drops)
