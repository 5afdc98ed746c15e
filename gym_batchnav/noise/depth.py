"""Noise of depth: Redwood's model of a structured-light camera."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.geometry import DepthEncoding
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.noise.batch import run_on_images
from gym_batchnav.noise.random import draw_words, normal_levels
from gym_batchnav.system.arrays import UNREADABLE, array_of_npy
from gym_batchnav.system.jit import ENTRY, INNER, to_int64
from gym_batchnav.system.numbers import check_between
from gym_batchnav.system.parallel import for_each

_TABLE = (80, 80, 5)  # rows of 6 of 480 pixels, columns of 8 of 640 pixels, depths of 1, 3, 5, 7 and 9 m
_TABLE_FILE_BYTES = 2**20  # the published table takes 256 KiB
_JITTER = 0.25  # pixels, standard deviation
_RANGE = 10.0  # metres; the camera sees nothing farther away
_FOCAL_BASELINE = 35.130  # disparity in pixels of 1 m
_DISPARITY_SIGMA = 0.027778  # pixels
_DISPARITY_STEPS = 8.0  # steps per pixel to which disparity is rounded
_LEAST_FACTOR = 1e-5  # of the table: below, the camera sees nothing


class _Tables(NamedTuple):
    """The arguments of ``measure_image``.

    Attributes:
        shifts: [65536] int8, jitter in pixels.
        bounds: [2] int32 of ``_jitter_by_one`` if no jitter exceeds a pixel, otherwise [0].
        errors: [65536] float32, errors of disparity in pixels.
        rows: [H] int64, row of ``factors`` for each row of pixels.
        columns: [W] int64, column of ``factors`` for each column of pixels.
        factors: [R, C, 5] float32, distortion; [1, 1, 5] for none.
    """

    shifts: np.ndarray
    bounds: np.ndarray
    errors: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    factors: np.ndarray


@dataclass(frozen=True, slots=True)
class RedwoodNoise(SensorNoise):
    """Noise of a structured-light depth camera, as in Habitat's ``RedwoodDepthNoiseModel``.

    Each pixel takes the depth of a pixel nearby (jitter with a standard deviation of a quarter pixel, at half the
    resolution). Its disparity, 35.130 pixels at 1 m, gets normal noise with a standard deviation of 0.027778 pixels and
    is rounded to eighths of a pixel. Beyond 10 m the camera sees nothing. The model is that of Choi, Zhou and Koltun,
    "Robust Reconstruction of Indoor Scenes", CVPR 2015, http://redwood-data.org/indoor/dataset.html, after Teichman,
    Miller and Thrun, "Unsupervised Intrinsic Calibration of Depth Sensors via SLAM", RSS 2013.

    That model also distorts depth by a table that was measured with one camera. It does not come with this package;
    pass the file ``redwood-depth-dist-model.npy`` of Habitat-Sim as ``distortion``.

    Attributes:
        multiplier: Factor of the jitter and of the noise of disparity.
        distortion: Path of a .npy file with the table of distortion, [80, 80, 5] or [6400, 5] numbers; None for none.

    Raises:
        ValueError: The multiplier is not from 0 to 1000, or the file does not hold such a table.
        FileNotFoundError: The file does not exist.
    """

    multiplier: float = 1.0
    distortion: str | PathLike[str] | None = None
    _factors: np.ndarray = field(init=False, repr=False, compare=False)

    sensor = "depth"

    def __post_init__(self) -> None:
        check_between(0, 1000, multiplier=self.multiplier)
        factors = np.ones((1, 1, 5), np.float32) if self.distortion is None else _read_table(self.distortion)
        object.__setattr__(self, "_factors", factors)

    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Add noise to images [N, H, W, 1] float32, metres, in place; see ``SensorNoise``."""
        height, width = images.shape[1:3]
        rows = _bins(height, 480, 6) % len(self._factors)
        columns = _bins(width, 640, 8) % self._factors.shape[1]
        tables = _Tables(*_levels(float(self.multiplier)), rows, columns, self._factors)
        run_on_images(measure_all, images, keys, np.float32, tables)


@lru_cache(maxsize=16)
def _levels(multiplier: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``shifts``, ``bounds`` and ``errors`` of ``_Tables``."""
    levels = normal_levels()
    shifts = np.clip(np.floor(_JITTER * multiplier * levels + 0.5), -127, 127).astype(np.int8)
    by_one = np.searchsorted(shifts, [0, 1]).astype(np.int32)  # the levels ascend
    bounds = by_one if np.abs(shifts).max() <= 1 else by_one[:0]
    return shifts, bounds, (_DISPARITY_SIGMA * multiplier * levels).astype(np.float32)


@lru_cache(maxsize=16)
def _bins(size: int, table_size: int, bin_size: int) -> np.ndarray:
    """Return the row or column [size] int64 of the table for each row or column of an image."""
    scaled = np.arange(size) / max(size - 1, 1) * (table_size - 1) + 0.5
    return scaled.astype(np.int64) // bin_size


def _read_table(path: str | PathLike[str]) -> np.ndarray:
    """Return a table of distortion [80, 80, 5] float32 from a file."""
    if not isinstance(path, (str, PathLike)):
        raise ValueError(f"distortion={path!r}: pass the path of a .npy file")
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"distortion='{path}': the file does not exist: check the path")
    if path.stat().st_size > _TABLE_FILE_BYTES:
        raise ValueError(f"distortion='{path}' has more than 1 MiB: pass a table of {_TABLE} numbers")
    try:
        table = array_of_npy(path.read_bytes(), "fiu")
    except UNREADABLE as error:
        raise ValueError(f"distortion='{path}' is not a .npy file of numbers ({error}): pass one") from error
    with np.errstate(over="ignore"):
        expected = table.size == np.prod(_TABLE)
        factors = np.ascontiguousarray(table.reshape(_TABLE), np.float32) if expected else np.full(1, np.nan)
    if not np.isfinite(factors).all():
        raise ValueError(f"distortion='{path}': pass a table of {_TABLE} finite numbers")
    return factors


def encode_depth(images: np.ndarray, encoding: DepthEncoding) -> None:
    """Encode depth as a camera does, in place.

    Args:
        images: [N, H, W, 1] float32, metres, 0 where nothing is hit.
        encoding: The camera's encoding.
    """
    no_keys = np.zeros(len(images), np.uint64)
    run_on_images(encode_all, images, no_keys, np.float32, np.array(encoding, np.float32))


@njit(**INNER)
def _jitter_by_one(
    row: int, height: int, words: np.ndarray, bounds: np.ndarray, ys: np.ndarray, xs: np.ndarray
) -> None:
    """Do what ``_jitter_row`` does where jitter is at most one pixel, in a loop without a table, which is vectorised.

    Args:
        row: The row.
        height: Rows of the image.
        words: [W] uint64, random numbers.
        bounds: [2] int32: random numbers below the first move a pixel by -1, those from the second on by 1.
        ys: [W] int32, written.
        xs: [W] int32, written.
    """
    one = np.int32(1)
    zero = np.int32(0)
    low = np.int32(bounds[0])
    high = np.int32(bounds[1])
    last_row = np.int32(height - 1)
    last_column = np.int32(len(xs) - 1)
    for column in range(len(xs)):
        down = np.int32(words[column] & np.uint64(0xFFFF))
        right = np.int32((words[column] >> np.uint64(16)) & np.uint64(0xFFFF))
        y = np.int32(row) + (one if down >= high else zero) - (one if down < low else zero)
        x = np.int32(column) + (one if right >= high else zero) - (one if right < low else zero)
        ys[column] = min(max(np.int32(y), zero), last_row)
        xs[column] = min(max(np.int32(x), zero), last_column)


@njit(**INNER)
def _jitter_row(row: int, height: int, levels: np.ndarray, shifts: np.ndarray, ys: np.ndarray, xs: np.ndarray) -> None:
    """Write the rows ``ys`` [W] and columns ``xs`` [W], int32, of the pixels that a row of pixels reads instead."""
    width = len(xs)
    for column in range(width):
        ys[column] = min(max(row + to_int64(shifts[levels[4 * column]]), 0), height - 1)
        xs[column] = min(max(column + to_int64(shifts[levels[4 * column + 1]]), 0), width - 1)


@njit(**INNER)
def _distort_row(rows: np.ndarray, columns: np.ndarray, factors: np.ndarray, depths: np.ndarray) -> None:
    """Distort ``depths`` [W], in place, by the factors in rows [W] and columns [W] of ``factors`` [R, C, 5]."""
    half = np.float32(0.5)
    for column in range(len(depths)):
        depth = depths[column]
        above = int((depth + np.float32(1)) * half)  # the factors belong to 1, 3, 5, 7 and 9 m
        share = (depth - np.float32(2 * above - 1)) * half
        known = factors[rows[column], columns[column]]
        low = known[min(max(above - 1, 0), 4)]
        high = known[min(above, 4)]
        factor = (np.float32(1) - share) * low + share * high
        depths[column] = depth / factor if factor >= _LEAST_FACTOR else np.float32(0)


@njit(**INNER)  # divisions by zero give inf, so that the loop needs no branches
def _measure_row(depths: np.ndarray, errors: np.ndarray, out: np.ndarray) -> None:
    """Write what the camera measures into ``out`` [W], metres, 0 where it sees nothing.

    Args:
        depths: [W] float32, metres, 0 where there is nothing to see.
        errors: [W] float32, errors of disparity in pixels.
        out: [W] float32, written.
    """
    focal_baseline = np.float32(_FOCAL_BASELINE)
    num_steps = np.float32(_DISPARITY_STEPS)
    for column in range(len(out)):
        steps = np.rint((focal_baseline / depths[column] + errors[column]) * num_steps)
        seen = depths[column] > 0 and steps > 0
        out[column] = focal_baseline * num_steps / steps if seen else np.float32(0)


@njit(**INNER)
def measure_image(item: int, images: np.ndarray, keys: np.ndarray, tables: _Tables) -> None:
    """Replace the depths of image ``item`` of ``images`` [N, H W] float32 by those that the camera measures.

    Args:
        item: The image.
        images: [N, H W] float32, metres, 0 where nothing is hit.
        keys: [N] uint64.
        tables: See ``_Tables``.
    """
    shifts, bounds, errors, rows, columns, factors = tables
    height = len(rows)
    width = len(columns)
    true = images[item].copy()
    words = np.empty(width, np.uint64)
    levels = words.view(np.uint16)
    ys = np.empty(width, np.int32)
    xs = np.empty(width, np.int32)
    sources = np.empty(width, np.int32)
    depths = np.empty(width, np.float32)
    row_errors = np.empty(width, np.float32)
    for row in range(height):
        draw_words(keys[item], to_int64(row * width), words)
        if len(bounds) > 0:
            _jitter_by_one(to_int64(row), to_int64(height), words, bounds, ys, xs)
        else:
            _jitter_row(to_int64(row), to_int64(height), levels, shifts, ys, xs)
        for column in range(width):  # at half the resolution
            even_row = np.int32(ys[column] & np.int32(-2))
            sources[column] = np.int32(even_row * np.int32(width)) + np.int32(xs[column] & np.int32(-2))
        for column in range(width):
            depth = true[np.uint32(sources[column])]  # an unsigned index needs no test of its sign
            depths[column] = depth if depth < _RANGE else np.float32(0)
            row_errors[column] = errors[levels[4 * column + 2]]
        if len(factors) > 1:
            for column in range(width):
                ys[column] = rows[ys[column]]
                xs[column] = columns[xs[column]]
            _distort_row(ys, xs, factors, depths)
        _measure_row(depths, row_errors, images[item, row * width : (row + 1) * width])


@njit(**ENTRY)
def measure_all(images: np.ndarray, keys: np.ndarray, tables: _Tables) -> None:
    """Run ``measure_image`` for all images."""
    for_each(measure_image, len(images), (images, keys, tables))


@njit(**INNER)
def encode_image(item: int, images: np.ndarray, encoding: np.ndarray) -> None:
    """Encode image ``item`` of ``images`` [N, H W] float32, metres; ``encoding`` has the fields of DepthEncoding."""
    values = images[item]
    nearest = encoding[0]
    farthest = encoding[1]
    offset = encoding[2]
    unit = encoding[3]
    miss = encoding[6]
    for pixel in range(len(values)):
        encoded = (min(max(values[pixel], nearest), farthest) - offset) / unit
        values[pixel] = encoded if values[pixel] > 0 else miss


@njit(**ENTRY)
def encode_all(images: np.ndarray, keys: np.ndarray, encoding: np.ndarray) -> None:
    """Run ``encode_image`` for all images; the keys are not used."""
    for_each(encode_image, len(images), (images, encoding))
