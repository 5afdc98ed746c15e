"""Habitat's PointNav datasets: episodes as JSON, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.episodes.sampling import EpisodeSet, episode_set
from gym_batchnav.system.storage import write_atomically

MAX_BYTES = 2**28  # of one file
MAX_ITEMS = 2**24  # objects, lists and values of one file; each takes some hundred bytes while it is read
MAX_TOTAL_BYTES, MAX_TOTAL_ITEMS = 2**31, 2**27  # of all files; an item takes some ten bytes once its file was read

FileState = tuple[str, int, int]  # path, time of the last change, nanoseconds, and size, bytes


class _Size(NamedTuple):
    """How much has been read."""

    num_bytes: int
    num_items: int


class _Episodes(NamedTuple):
    """Episodes of one scene in one file."""

    rows: np.ndarray  # [E] int64, numbers among those of all files
    ids: list[str]
    values: np.ndarray  # [E, 8] float64: start (3), heading, goal (3), distance


def read_episodes(path: str | Path) -> dict[str, EpisodeSet]:
    """Read the episodes of a Habitat PointNav dataset.

    The file may hold several scenes; a top-level file without episodes stands for the files in ``content/`` beside it.

    Args:
        path: A ``.json`` or ``.json.gz`` file.

    Returns:
        An EpisodeSet a scene, by the name of its ``scene_id``: the file's stem, with as many of the folders before it
        as tell it from the others (``"attic/room"``). Ids of which one is the end of another are one scene.

    Raises:
        ValueError: the file is not such a dataset, or holds no episode; the message names the row.
    """
    path = Path(path)
    rows, size = _read_rows(path, _Size(0, 0))
    by_scene = _by_scene(path, rows, 0)
    if not rows:
        num_rows = 0
        for part in _content_of(path):  # each is made small before the next is read
            rows, size = _read_rows(part, size)
            for parts, found in _by_scene(part, rows, num_rows).items():
                by_scene.setdefault(parts, []).extend(found)
            num_rows += len(rows)
    if not by_scene:
        raise ValueError(f"{path}: no episodes, neither in it nor in files of a folder content/ beside it")
    names = _names(list(by_scene))
    merged: dict[str, list[_Episodes]] = {}
    for parts, found in by_scene.items():
        merged.setdefault(names[parts], []).extend(found)
    return {name: _joined(found) for name, found in merged.items()}


def state_of_files(path: Path) -> tuple[FileState, ...]:
    """By what to notice that ``read_episodes`` would give something else: all files that it may read.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such episode file: give the path of a .json or .json.gz")
    status = [(file, file.stat()) for file in (path, *_content_of(path))]
    return tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in status)


def _content_of(path: Path) -> list[Path]:
    """The files of ``content/`` beside a dataset's top-level file."""
    return sorted((path.parent / "content").glob("*.json*"))


def scene_name_in(by_scene: Collection[str], aliases: Iterable[str]) -> str | None:
    """Which scene of a dataset is meant by a scene that goes by several names; None if none of them is.

    Args:
        by_scene: The names that ``read_episodes`` gives.
        aliases: The scene's name, path or ``scene_id``, any of which may have folders before it.

    Raises:
        ValueError: several are meant as well as each other.
    """
    known = [(name, _parts(name)) for name in by_scene]
    shared = {name: max((_num_shared(parts, _parts(alias)) for alias in aliases), default=0) for name, parts in known}
    most = max(shared.values(), default=0)
    found = [name for name, parts in known if most > 0 and shared[name] == most]
    if len(found) > 1:
        several = ", ".join(sorted(found)[:5])
        raise ValueError(f"it has several scenes of that name ({several}): give the scene's path with its folders")
    return found[0] if found else None


def write_episodes(by_scene: Mapping[str, EpisodeSet], path: str | Path) -> None:
    """Write episodes as Habitat's ``.json`` or ``.json.gz``; the file appears whole or not at all.

    Args:
        by_scene: The episodes of every ``scene_id``.
        path: Where to, ``.json`` or ``.json.gz``.

    Raises:
        ValueError: the path ends otherwise.
    """
    if not Path(path).name.endswith((".json", ".json.gz")):
        raise ValueError(f"{path}: name a file of episodes .json or .json.gz")
    rows = [row for scene_id, episodes in by_scene.items() for row in _rows_of(scene_id, episodes)]
    path = Path(path)
    text = json.dumps({"episodes": rows}).encode()
    # A fixed time stamp, so that equal episodes make equal files.
    content = gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
    write_atomically(path, content)


def _rows_of(scene_id: str, episodes: EpisodeSet) -> list[dict[str, Any]]:
    """The episodes of one scene as Habitat's rows."""
    half = episodes.heading.astype(np.float64) / 2
    return [
        {
            "episode_id": episode_id,
            "scene_id": scene_id,
            "start_position": start,
            "start_rotation": [0.0, sin, 0.0, cos],
            "info": {"geodesic_distance": distance},
            "goals": [{"position": goal, "radius": None}],
            "start_room": None,
            "shortest_paths": None,
        }
        for episode_id, start, sin, cos, distance, goal in zip(
            episodes.ids,
            episodes.start.tolist(),
            np.sin(half).tolist(),
            np.cos(half).tolist(),
            episodes.distance.tolist(),
            episodes.goal.tolist(),
            strict=True,
        )
    ]


def scene_stem(scene_id: str) -> str:
    """The name of a scene in Habitat's ``scene_id``: the file name without folders and suffixes."""
    return _parts(scene_id)[-1]


def _parts(scene_id: str) -> tuple[str, ...]:
    """The folders of a scene's id and the stem of its file."""
    *folders, file = scene_id.replace("\\", "/").split("/")
    return (*(folder for folder in folders if folder not in ("", ".")), file.split(".", 1)[0])


def _num_shared(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """How many parts two ids share, counted from their ends."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _names(ids: list[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """The name of every id: the shortest of its ends that no other has; one that is the end of one other has its."""
    ends = {parts[first:] for parts in ids for first in range(1, len(parts))}
    longest = [parts for parts in ids if parts not in ends]
    ending_so: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for parts in longest:
        for first in range(len(parts)):
            ending_so.setdefault(parts[first:], []).append(parts)
    meant = {parts: ending_so[parts][0] if len(ending_so[parts]) == 1 else parts for parts in ids}
    return {parts: _shortest(whole, ending_so) for parts, whole in meant.items()}


def _shortest(parts: tuple[str, ...], ending_so: Mapping[tuple[str, ...], list[tuple[str, ...]]]) -> str:
    own = (parts[-count:] for count in range(1, len(parts)) if len(ending_so[parts[-count:]]) == 1)
    return "/".join(next(own, parts))


def _read_rows(path: Path, before: _Size) -> tuple[list[dict[str, Any]], _Size]:
    """The rows under "episodes" of one file, and how much has been read with it."""
    try:
        opened = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
        with opened as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ValueError(f"{path}: more than {MAX_BYTES:,} bytes of episodes; split the file by scene")
        num_items = sum(map(text.count, (b"{", b"[", b",")))
        if num_items > MAX_ITEMS:
            raise ValueError(f"{path}: {num_items:,} entries, of which at most {MAX_ITEMS:,} are read; split the file")
        size = _Size(before.num_bytes + len(text), before.num_items + num_items)
        if size.num_bytes > MAX_TOTAL_BYTES or size.num_items > MAX_TOTAL_ITEMS:
            raise ValueError(
                f"{path}: with the files before it these are more than {MAX_TOTAL_BYTES:,} bytes or "
                f"{MAX_TOTAL_ITEMS:,} entries; take files out of the folder"
            )
        rows = json.loads(text)["episodes"]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such episode file") from None
    except (
        OSError,
        EOFError,
        zlib.error,
        UnicodeDecodeError,
        json.JSONDecodeError,
        RecursionError,
        KeyError,
        TypeError,
    ) as error:
        raise ValueError(
            f"{path}: not a Habitat episode file (JSON with a list 'episodes', plain or gzipped): {error}"
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: 'episodes' must be a list of objects")
    return rows, size


def _by_scene(path: Path, rows: list[dict[str, Any]], first: int) -> dict[tuple[str, ...], list[_Episodes]]:
    """The rows of a file by the scene's id; ``first`` rows came before them."""
    found: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for index, row in enumerate(rows):
        found.setdefault(_parts(str(row.get("scene_id", ""))), []).append((index, row))
    return {parts: [_parse_rows(path, numbered, first)] for parts, numbered in found.items()}


def _parse_rows(path: Path, numbered: list[tuple[int, dict[str, Any]]], first: int) -> _Episodes:
    """Rows of one scene and their numbers in the file; a missing geodesic distance reads NaN."""
    ids, values = [], np.empty((len(numbered), 8))
    for k, (index, row) in enumerate(numbered):
        try:
            position = np.array(row["start_position"], np.float64).reshape(3)
            rotation = np.array(row["start_rotation"], np.float64).reshape(4)
            target = np.array(row["goals"][0]["position"], np.float64).reshape(3)
            length = float((row.get("info") or {}).get("geodesic_distance", np.nan))
            if not np.isfinite([*position, *rotation, *target]).all():
                raise ValueError("a number that is not finite")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: episode {index} is malformed: {error}") from error
        ids.append(str(row.get("episode_id", first + index)))
        values[k] = (*position, _yaw(rotation), *target, length)
    return _Episodes(np.array([first + index for index, _ in numbered]), ids, values)


def _joined(found: list[_Episodes]) -> EpisodeSet:
    """Episodes of one scene in the order of their rows."""
    order = np.argsort(np.concatenate([one.rows for one in found]))
    values = np.concatenate([one.values for one in found])[order]
    ids = [name for one in found for name in one.ids]
    return episode_set(values[:, :3], values[:, 3], values[:, 4:7], values[:, 7], tuple(ids[k] for k in order))


def _yaw(rotation: np.ndarray) -> float:
    """Heading, radians, of a quaternion [x, y, z, w]: where it turns the forward direction -z, seen from above."""
    x, y, z, w = rotation
    return float(np.arctan2(2 * (x * z + w * y), 1 - 2 * (x * x + y * y)))
