"""Episodes as Arrow files of one record batch, with the types by which Minari reads them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space

from gym_batchnav.collect.api import DatasetInfo, Episode
from gym_batchnav.system.extras import needs_extra

INFOS = {"position": 3, "heading": 0, "pitch": 0, "distance_to_goal": 0, "goal": 3}  # float32; 0 for one number a row
_CONTINUATION = 8  # bytes before the first message of a file
_PREFIX = 8  # bytes before a compressed buffer: its size, or -1 where it is not compressed


def import_arrow() -> Any:
    """Return PyArrow.

    Raises:
        MissingExtraError: It is not installed.
    """
    with needs_extra("minari", "writing Minari datasets"):
        import pyarrow
        import pyarrow.ipc
    return pyarrow


def schema_of(info: DatasetInfo) -> Any:
    """Return the schema of an episode's file.

    Raises:
        ValueError: Minari cannot hold one of the sensors or the actions.
    """
    pa = import_arrow()
    sensors = [pa.field(key, _type_of(key, space)) for key, space in info.observation_space.spaces.items()]
    infos = []
    for name, size in INFOS.items():
        kind = pa.list_(pa.float32(), size) if size else pa.float32()
        infos.append(pa.field(name, kind, metadata={"shape": str(size)} if size else None))
    fields = [
        ("observations", pa.struct(sensors)),
        ("actions", _type_of("actions", info.action_space)),
        ("rewards", pa.float64()),
        ("terminations", pa.bool_()),
        ("truncations", pa.bool_()),
        ("infos", pa.struct(infos)),
    ]
    return pa.schema(fields)


def write_episode(path: Path, episode: Episode, info: DatasetInfo, schema: Any) -> None:
    """Write an episode of T actions: T + 1 rows, of which the last has an observation and no action.

    Args:
        path: The file.
        episode: The episode.
        info: What describes the dataset.
        schema: See ``schema_of``.
    """
    pa = import_arrow()
    space: Dict = info.observation_space
    sensors = [_array(episode.observations[key], one, 0) for key, one in space.spaces.items()]
    known = (episode.position, episode.heading, episode.pitch, episode.distance, episode.goal)
    infos = []
    for values, size in zip(known, INFOS.values(), strict=True):
        flat = pa.array(np.ascontiguousarray(values, np.float32).reshape(-1))
        infos.append(pa.FixedSizeListArray.from_arrays(flat, size) if size else flat)
    columns = [
        pa.StructArray.from_arrays(sensors, fields=list(schema.field("observations").type)),
        _array(episode.actions, info.action_space, 1),
        pa.array(np.append(episode.rewards, 0.0)),
        pa.array(np.append(episode.terminated, False)),
        pa.array(np.append(episode.truncated, False)),
        pa.StructArray.from_arrays(infos, fields=list(schema.field("infos").type)),
    ]
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("lz4"), use_threads=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def check_episode(path: Path, info: DatasetInfo, num_steps: int) -> None:
    """Check an episode's file, which may come from strangers: types, rows, and sizes before memory is taken.

    Raises:
        ValueError: It is damaged.
    """
    pa = import_arrow()
    schema = schema_of(info)
    try:
        with pa.memory_map(str(path)) as file:
            file.seek(_CONTINUATION)
            found = pa.ipc.read_schema(pa.ipc.read_message(file))
            message = pa.ipc.read_message(file)
            rows, size = _declared(message)
            if not found.equals(schema):
                raise ValueError("it has other columns than the dataset")
            if rows != num_steps + 1:
                raise ValueError(f"{rows} rows of an episode of {num_steps} actions")
            if size > (num_steps + 1) * _row_bytes(info) + 2**16:
                raise ValueError(f"it would take {size:,} bytes of memory")
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            if pa.ipc.open_file(file).num_record_batches != 1:
                raise ValueError("it has more than one batch of rows")
    except (OSError, EOFError, ValueError, TypeError, struct.error, pa.ArrowException) as error:
        raise ValueError(f"'{path}' is damaged: {error}") from error


def _declared(message: Any) -> tuple[int, int]:
    """Return the rows of a message and the bytes of its buffers when they are decompressed.

    Arrow takes that memory before it decompresses, and has no function that tells. The message's metadata is a
    FlatBuffers table whose third field is the record batch; its fields are rows, nodes and the places of buffers.
    """
    if message.type != "record batch":
        raise ValueError(f"a {message.type} in place of rows")
    data = message.metadata.to_pybytes()
    body = message.body
    batch = _field(data, struct.unpack_from("<I", data)[0], 2)
    batch += struct.unpack_from("<I", data, batch)[0]
    rows = struct.unpack_from("<q", data, _field(data, batch, 0))[0]
    buffers = _field(data, batch, 2)
    buffers += struct.unpack_from("<I", data, buffers)[0]
    size = 0
    for index in range(struct.unpack_from("<I", data, buffers)[0]):
        offset, length = struct.unpack_from("<qq", data, buffers + 4 + 16 * index)
        if offset < 0 or length < 0 or offset + length > body.size:
            raise ValueError("a buffer outside the file")
        if length >= _PREFIX:
            declared = struct.unpack("<q", body.slice(offset, _PREFIX).to_pybytes())[0]
            if declared < -1:
                raise ValueError("a buffer of negative size")
            size += length if declared == -1 else declared
    return rows, size


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a FlatBuffers table."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    entry = layout + 4 + 2 * number
    if layout < 0 or entry + 2 > layout + struct.unpack_from("<H", data, layout)[0]:
        raise ValueError("its metadata lacks a field")
    offset = struct.unpack_from("<H", data, entry)[0]
    if not offset:
        raise ValueError("its metadata lacks a field")
    return table + offset


def _row_bytes(info: DatasetInfo) -> int:
    """Return more bytes than a row has in memory."""
    spaces = (*info.observation_space.spaces.values(), info.action_space)
    return 2**10 + 2 * sum(int(np.prod(space.shape or (1,))) * np.dtype(space.dtype).itemsize for space in spaces)


def _type_of(key: str, space: Space[Any]) -> Any:
    """Return the type of the values of a space.

    Raises:
        ValueError: Minari cannot hold them.
    """
    pa = import_arrow()
    if isinstance(space, Discrete):
        return pa.int64()
    if not isinstance(space, (Box, MultiBinary, MultiDiscrete)) or not space.shape:
        raise ValueError(f"a Minari dataset cannot hold {key!r}, which is a {space}: leave that sensor out")
    return pa.list_(pa.from_numpy_dtype(space.dtype), int(np.prod(space.shape)))


def _array(values: np.ndarray, space: Space[Any], missing: int) -> Any:
    """Return values [T, ...] of a space with ``missing`` further rows of 0."""
    pa = import_arrow()
    values = np.asarray(values, np.int64 if isinstance(space, Discrete) else space.dtype)
    values = values.reshape(len(values), -1)
    if missing:
        values = np.concatenate((values, np.zeros((missing, values.shape[1]), values.dtype)))
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return flat if isinstance(space, Discrete) else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
