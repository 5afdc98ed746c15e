"""Rows of LeRobot datasets in Parquet: their schema, and tables of episodes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from gym_batchnav.collect.api import Episode
from gym_batchnav.collect.lerobot.features import Feature, counters
from gym_batchnav.collect.lerobot.tiff import tiff_files, tiff_header
from gym_batchnav.system.extras import needs_extra

_ARRAYS = {2: "Array2D", 3: "Array3D", 4: "Array4D", 5: "Array5D"}


def import_arrow() -> Any:
    """Return PyArrow, with its module of Parquet.

    Raises:
        MissingExtraError: It is not installed.
    """
    with needs_extra("lerobot", "writing LeRobot datasets"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def schema_of(features: Iterable[Feature]) -> Any:
    """Return the Arrow schema of rows, with the types by which Hugging Face's datasets reads them."""
    pa = import_arrow()
    fields = []
    hints: dict[str, Any] = {}
    for one in features:
        if one.kind == "video":
            continue
        if one.kind == "image":
            fields.append(pa.field(one.name, pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
            hints[one.name] = {"_type": "Image"}
            continue
        value = {"dtype": one.dtype, "_type": "Value"}
        kind = pa.from_numpy_dtype(np.dtype(one.dtype))
        if one.shape == (1,):
            fields.append(pa.field(one.name, kind))
            hints[one.name] = value
        elif len(one.shape) == 1:
            fields.append(pa.field(one.name, pa.list_(kind, one.shape[0])))
            hints[one.name] = {"feature": value, "length": one.shape[0], "_type": "Sequence"}
        else:
            fields.append(pa.field(one.name, reduce(lambda inner, _: pa.list_(inner), one.shape, kind)))
            hints[one.name] = {"shape": list(one.shape), "dtype": one.dtype, "_type": _ARRAYS[len(one.shape)]}
    for name, described in counters().items():
        fields.append(pa.field(name, pa.from_numpy_dtype(np.dtype(described["dtype"]))))
        hints[name] = {"dtype": described["dtype"], "_type": "Value"}
    return pa.schema(fields, {"huggingface": json.dumps({"info": {"features": hints}})})


def open_rows(where: Any, schema: Any) -> Any:
    """Return a writer of Parquet for a path or an open file; images are neither looked up nor compared.

    Rows are compressed when a shard is written, and read and compressed again when the dataset is made of all shards.
    LZ4 takes half of the time of Zstandard for both.
    """
    pa = import_arrow()
    small = [one.name for one in schema if not pa.types.is_nested(one.type)]
    return pa.parquet.ParquetWriter(where, schema, compression="lz4", use_dictionary=small, write_statistics=small)


def rows_of(episode: Episode, values: dict[str, np.ndarray], features: Iterable[Feature], fps: int, schema: Any) -> Any:
    """Return the rows of an episode, with numbers that count from 0 in it.

    Args:
        episode: The episode.
        values: [T, ...] by name of the feature.
        features: All features.
        fps: Frames per second.
        schema: See ``schema_of``.
    """
    pa = import_arrow()
    arrays = []
    for one in features:
        if one.kind == "video":
            continue
        array = values[one.name]
        if one.kind == "image":
            arrays.append(_images(array, schema.field(one.name).type))
        elif one.shape == (1,):
            arrays.append(pa.array(np.ascontiguousarray(array.reshape(-1))))
        else:
            arrays.append(_lists(array, one.shape))
    frame = np.arange(episode.num_steps, dtype=np.int64)
    zeros = np.zeros_like(frame)
    arrays += [pa.array((frame / fps).astype(np.float32)), pa.array(frame), pa.array(zeros), pa.array(frame)]
    return pa.Table.from_arrays([*arrays, pa.array(zeros)], schema=schema)


def numbered(table: Any, episode: int, first: int, task: int) -> Any:
    """Return the rows of an episode with their numbers in a dataset."""
    pa = import_arrow()
    numbers = {
        "episode_index": np.full(len(table), episode, np.int64),
        "index": np.arange(first, first + len(table), dtype=np.int64),
        "task_index": np.full(len(table), task, np.int64),
    }
    for name, values in numbers.items():
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), pa.array(values))
    return table


def _images(images: np.ndarray, kind: Any) -> Any:
    """Return images [T, H, W, C] as files in structures of bytes and no path."""
    pa = import_arrow()
    count, height, width, channels = images.shape
    size = len(tiff_header(height, width, channels, images.dtype)) + height * width * channels * images.dtype.itemsize
    offsets = _offsets(count, size)
    files = tiff_files(images)
    content = pa.Array.from_buffers(pa.binary(), len(files), [None, pa.py_buffer(offsets), pa.py_buffer(files)])
    return pa.StructArray.from_arrays([content, pa.nulls(len(files), pa.string())], fields=list(kind))


def _lists(array: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Return values [T, ...] as nested lists."""
    pa = import_arrow()
    values = pa.array(np.ascontiguousarray(array).reshape(-1))
    if len(shape) == 1:
        return pa.FixedSizeListArray.from_arrays(values, shape[0])
    for size in reversed(shape):
        offsets = _offsets(len(values) // size, size)
        values = pa.ListArray.from_arrays(pa.array(offsets), values)
    return values


def _offsets(count: int, size: int) -> np.ndarray:
    """Return where each of ``count`` values of one size begins, and where the last one ends, [count + 1] int32.

    Raises:
        ValueError: They do not fit in a column of an episode, because Arrow counts in int32.
    """
    if count * size > np.iinfo(np.int32).max:
        raise ValueError(
            f"{count:,} values of size {size:,} are too many for a column of one episode in a LeRobot dataset: pass a "
            "lower max_episode_steps=, a smaller camera=, or store depth and rgb as videos"
        )
    return np.arange(count + 1, dtype=np.int32) * np.int32(size)
