"""Habitat's PointNav datasets: episodes as JSON, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet, episode_set
from gym_batchnav.system.storage import LFS_POINTER, check_content, make_folder, replace_path, write_atomically

ENDINGS = (".json", ".json.gz")
MAX_BYTES = 2**27  # per file
MAX_ITEMS = 2**22  # objects, lists and values per file; each takes up to 200 bytes while the file is read
MAX_SCENES = 10_000  # distinct ids in a dataset; Habitat-Matterport 3D has 1,000 scenes
MAX_FOLDERS = 64  # in a scene's id
MAX_TOTAL_BYTES = 2**31  # of all files
MAX_TOTAL_ITEMS = 2**27  # of all files; an item takes about ten bytes after its file has been read

# Keys of a row that other tasks' datasets have and PointNav's do not (habitat-lab, habitat/datasets).
_OTHER_TASKS = {
    "object_category": "ObjectNav",
    "goal_image_id": "InstanceImageNav",
    "instruction": "vision-and-language navigation",
    "question": "embodied question answering",
    "rigid_objs": "rearrangement",
}
# The same for keys of a whole file, which may have no rows.
_OTHER_TASKS_OF_FILES = {
    "category_to_task_category_id": "ObjectNav",
    "goals_by_category": "ObjectNav",
    "instruction_vocab": "vision-and-language navigation",
}

_AS_OBJECTNAV = (
    "pass task=ObjectNav(), to commands --protocol objectnav-2023 or an agent module:name with that task in its "
    "env_keywords (demo: --task objectnav)"
)

FileState = tuple[str, int, int]  # path, time of the last change in nanoseconds, and size in bytes

_LARGEST = 1e9  # limit of numbers, which keeps their squares finite


class Size(NamedTuple):
    """The amount of data read so far."""

    num_bytes: int
    num_items: int


class _Episodes(NamedTuple):
    """The episodes of one scene in one file."""

    rows: np.ndarray  # [E] int64, numbers of the rows, counted across all files
    ids: list[str]
    values: np.ndarray  # [E, 8] float64: start (3), heading, goal (3), distance


class ObjectNavFile(ValueError):
    """A file of episodes is one of ObjectNav, which ``habitat_objects.read_object_episodes`` reads."""


def read_episodes(path: str | Path, scene: str | None = None) -> dict[str, EpisodeSet]:
    """Read the episodes of a Habitat PointNav dataset.

    The file may hold several scenes. If it has no episodes, the files in the folder ``content/`` next to it are read.

    Args:
        path: A ``.json`` or ``.json.gz`` file.
        scene: The only scene to read from ``content/``, as the stem of its file there; all by default. If it is
            given, a dataset without episodes is not an error.

    Returns:
        One EpisodeSet per scene, by the scene's name. That is the stem of the file in its ``scene_id``, with the fewest
        folders that make it unique (``"attic/room"``). If one id is a suffix of another, both are the same scene.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: If the file is not a PointNav dataset, is too large, or holds no episode; the message names the row
            and the field.
    """
    path = Path(path)
    rows, size = _read_rows(path, Size(0, 0))
    by_scene = _by_scene(path, rows, 0)
    if not rows:
        num_rows = 0
        for part in content_of(path, scene):  # each is reduced to arrays before the next is read
            rows, size = _read_rows(part, size)
            for parts, found in _by_scene(part, rows, num_rows).items():
                by_scene.setdefault(parts, []).extend(found)
            num_rows += len(rows)
    if not by_scene and scene is None:
        raise ValueError(
            f"{path}: neither this file nor a folder content/ next to it has episodes: download that folder, or pass "
            "another file"
        )
    names = names_of(path, list(by_scene))
    merged: dict[str, list[_Episodes]] = {}
    for parts, found in by_scene.items():
        merged.setdefault(names[parts], []).extend(found)
    return {name: _joined(found) for name, found in merged.items()}


def state_of_files(path: Path) -> tuple[FileState, ...]:
    """Return path, time and size of all files that ``read_episodes`` may read; equal states give equal episodes.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is a folder, or another thing than a file.
    """
    check_file(path)
    status = [(file, file.stat()) for file in (path, *content_of(path))]
    return tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in status)


def content_of(path: Path, scene: str | None = None) -> list[Path]:
    """Return the files of the folder ``content/`` next to a dataset's top-level file: all, or those of one scene.

    Habitat names each file after its scene (``content/TEEsavR23oF.json.gz``), and so reads some scenes of many.
    """
    files = sorted((path.parent / "content").glob("*.json*"))
    return files if scene is None else [file for file in files if scene_stem(file.name) == scene]


def scene_name_in(by_scene: Collection[str], aliases: Iterable[str]) -> str | None:
    """Return a scene's name in a dataset, or None if the dataset does not have the scene.

    Args:
        by_scene: The names that ``read_episodes`` returned.
        aliases: The scene's name, path or ``scene_id``, each with or without folders.

    Raises:
        ValueError: If several scenes match equally well.
    """
    known = [(name, parts_of(name)) for name in by_scene]
    shared = {name: max((_num_shared(parts, parts_of(alias)) for alias in aliases), default=0) for name, parts in known}
    most = max(shared.values(), default=0)
    found = [name for name, parts in known if most > 0 and shared[name] == most]
    if len(found) > 1:
        several = ", ".join(sorted(found)[:5])
        raise ValueError(f"the dataset has several of this name ({several}): pass the scene's path with its folders")
    return found[0] if found else None


def write_episodes(by_scene: Mapping[str, EpisodeSet], path: str | Path) -> None:
    """Write PointNav episodes in Habitat's format, atomically.

    Args:
        by_scene: The episodes of every ``scene_id``.
        path: A file, ``.json`` or ``.json.gz``, or a folder; see ``write_dataset``.

    Raises:
        ValueError: If the path has another ending, two scenes in a folder have the same file name, or the folder has
            another dataset.
    """
    write_dataset(by_scene, lambda some: {"episodes": [row for one in some.items() for row in rows_of(*one)]}, path)


def write_dataset(
    by_scene: Mapping[str, Any], document_of: Callable[[Mapping[str, Any]], dict[str, Any]], path: str | Path
) -> None:
    """Write a dataset to a file, or in Habitat's layout to a folder, to whose other scenes these are added.

    The folder has a file for each scene, ``content/<scene>.json.gz``, and a file without episodes, ``dataset_file``.

    Args:
        by_scene: What is known of every ``scene_id``.
        document_of: Returns the document with the episodes of some of the scenes.
        path: The file or the folder, which is created if missing.

    Raises:
        ValueError: See ``write_episodes``.
    """
    path = Path(path)
    file = dataset_file(path)
    if file == path:
        _write_document(document_of(by_scene), file)
        return
    check_file_names(by_scene)
    check_same_dataset(file, document_of({}))
    content = path / "content"
    make_folder(content)
    with TemporaryDirectory(prefix=".content.", dir=path) as folder:  # no scene is half written
        written = [Path(folder) / f"{scene_stem(scene_id)}.json.gz" for scene_id in by_scene]
        for one, scene in zip(written, by_scene.items(), strict=True):
            _write_document(document_of(dict([scene])), one)
        for one in written:
            replace_path(one, content / one.name)
    _write_document(document_of({}), file)


def check_same_dataset(file: Path, document: Mapping[str, Any]) -> None:
    """Raise ValueError if a file that is in the place of a folder's top-level document is not this document."""
    if file.exists() and read_document(file, Size(0, 0))[0] != document:
        raise ValueError(
            f"'{file}' is there already and differs: it holds episodes itself, or has another task or categories: name "
            "another folder"
        )


def _write_document(document: Mapping[str, Any], path: Path) -> None:
    text = json.dumps(document).encode()
    # A fixed time stamp, so that equal episodes give equal files.
    content = gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
    write_atomically(path, content)


def dataset_file(path: Path) -> Path:
    """Return the file to read of a dataset that is written to a path: the path, or ``<folder>/<folder>.json.gz``.

    Raises:
        ValueError: If the path has another ending.
    """
    if path.name.endswith(ENDINGS):
        return path
    if path.suffix[1:].isalpha():
        raise ValueError(
            f"{path}: the name of a file of episodes must end in {' or '.join(ENDINGS)}, that of a folder has no ending"
        )
    return path / f"{path.resolve().name}.json.gz"


def check_file_names(scene_ids: Iterable[str]) -> None:
    """Raise ValueError if two scenes have the same file name."""
    files: dict[str, str] = {}
    for scene_id in scene_ids:
        other = files.setdefault(scene_stem(scene_id), scene_id)
        if other != scene_id:
            raise ValueError(
                f"scenes {other!r} and {scene_id!r} have the same file name, by which Habitat's format names their "
                "goals and files: write them to separate files or folders"
            )


def rows_of(scene_id: str, episodes: EpisodeSet) -> list[dict[str, Any]]:
    """Return the episodes of one scene as Habitat's rows."""
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
    """Return the file name in Habitat's ``scene_id``, without folders and suffixes."""
    return parts_of(scene_id)[-1]


def parts_of(scene_id: str) -> tuple[str, ...]:
    """Return the folders of a scene's id and the stem of its file."""
    *folders, file = scene_id.replace("\\", "/").split("/")
    return (*(folder for folder in folders if folder not in ("", ".")), file.split(".", 1)[0])


def _num_shared(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """Count the parts that two ids share, from their ends."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def names_of(path: Path, ids: list[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the name of every id in a dataset: its shortest end that no other id has.

    An id that is itself the end of exactly one longer id gets that id's name.

    Raises:
        ValueError: If there are too many.
    """
    if len(ids) > MAX_SCENES:
        raise ValueError(f"{path}: {len(ids):,} scenes, the limit is {MAX_SCENES:,}: split the file")
    ends = {parts[first:] for parts in ids for first in range(1, len(parts))}
    longest = [parts for parts in ids if parts not in ends]
    by_end: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for parts in longest:
        for first in range(len(parts)):
            by_end.setdefault(parts[first:], []).append(parts)
    whole = {parts: by_end[parts][0] if len(by_end[parts]) == 1 else parts for parts in ids}
    return {parts: _shortest(longer, by_end) for parts, longer in whole.items()}


def _shortest(parts: tuple[str, ...], by_end: Mapping[tuple[str, ...], list[tuple[str, ...]]]) -> str:
    own = (parts[-count:] for count in range(1, len(parts)) if len(by_end[parts[-count:]]) == 1)
    return "/".join(next(own, parts))


def _read_rows(path: Path, before: Size) -> tuple[list[dict[str, Any]], Size]:
    """Return the PointNav episodes of one file as rows, and the amount read; see ``read_document``."""
    document, size = read_document(path, before)
    _check_task(path, document, _OTHER_TASKS_OF_FILES)
    rows: list[dict[str, Any]] = document["episodes"]
    if rows:
        _check_task(path, rows[0], _OTHER_TASKS)
    return rows, size


def read_document(path: Path, before: Size) -> tuple[dict[str, Any], Size]:
    """Return the content of one file, with a list of objects under "episodes", and the amount read including this file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: If it is not a file of episodes, or too large.
    """
    text = _read_text(path)
    num_items = sum(map(text.count, (b"{", b"[", b",")))
    if num_items > MAX_ITEMS:
        raise ValueError(f"{path}: {num_items:,} entries, the limit is {MAX_ITEMS:,}: split the file")
    size = Size(before.num_bytes + len(text), before.num_items + num_items)
    if size.num_bytes > MAX_TOTAL_BYTES or size.num_items > MAX_TOTAL_ITEMS:
        raise ValueError(
            f"{path}: this file and those before it exceed {MAX_TOTAL_BYTES:,} bytes or {MAX_TOTAL_ITEMS:,} entries: "
            "name the files in content/ after their scenes, as Habitat does, or pass one of them"
        )
    try:
        document = json.loads(text)
        rows = document["episodes"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise _not_a_dataset(path, error) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: 'episodes' must be a list of objects")
    return document, size


def _read_text(path: Path) -> bytes:
    """Return the content of a file, decompressed."""
    check_file(path)
    try:
        with path.open("rb") as file:  # whose name may be wrong: browsers unpack files that they download
            is_gzip = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            text = (gzip.GzipFile(fileobj=file) if is_gzip else file).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _not_a_dataset(path, error) from error
    if len(text) > MAX_BYTES:
        raise ValueError(f"{path}: more than {MAX_BYTES:,} bytes of episodes: split the file by scene")
    return text


def check_file(path: Path, name: str = "") -> None:
    """Raise FileNotFoundError or ValueError, under a name of the file, unless a path leads to a regular file."""
    name = name or str(path)
    if path.is_dir():
        files = sorted(path.glob("*.json*"), key=lambda file: (scene_stem(file.name) != path.resolve().name, file))
        found = next((f"'{file}'" for file in files if _has_episodes(file)), "a .json or .json.gz file with episodes")
        raise ValueError(f"{name}: it is a folder: pass {found}")
    if not path.exists():
        raise FileNotFoundError(f"{name}: the file does not exist: pass the path of a .json or .json.gz")
    if not path.is_file():
        raise ValueError(f"{name}: it is not a regular file: pass a .json or .json.gz")
    try:
        with path.open("rb") as file:
            check_content(file.read(len(LFS_POINTER)))
    except OSError as error:
        raise _not_a_dataset(path, error) from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _has_episodes(path: Path) -> bool:
    try:
        return re.search(rb'"episodes"\s*:\s*\[', _read_text(path)) is not None
    except (ValueError, OSError):
        return False


def _not_a_dataset(path: Path, error: Exception) -> ValueError:
    """Return the error of a file that cannot be read as a dataset."""
    return ValueError(f"{path}: not a Habitat episode file ({error}): pass JSON, plain or gzipped, with 'episodes'")


def _check_task(path: Path, found: dict[str, Any], others: Mapping[str, str]) -> None:
    """Raise ValueError if there are keys of another task's dataset."""
    for key, task in others.items():
        if key in found:
            is_object_nav = task == "ObjectNav"
            remedy = _AS_OBJECTNAV if is_object_nav else "pass a dataset of PointNav or ObjectNav"
            kind = ObjectNavFile if is_object_nav else ValueError
            raise kind(f"{path}: episodes of {task} (they have {key!r}), not of PointNav: {remedy}")


def _by_scene(path: Path, rows: list[dict[str, Any]], first: int) -> dict[tuple[str, ...], list[_Episodes]]:
    """Group the rows of a file by their scene's id; ``first`` is the number of rows in earlier files."""
    found: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for index, row in enumerate(rows):
        try:
            parts = scene_parts(row)
        except ValueError as error:
            raise ValueError(f"{path}: episode {index}: {error}") from error
        found.setdefault(parts, []).append((index, row))
    return {parts: [_parse_rows(path, numbered, first)] for parts, numbered in found.items()}


def scene_parts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the folders and the stem in the ``scene_id`` of an episode; ValueError if it is missing or too long."""
    scene_id = text_of(row.get("scene_id") or "")
    if not scene_id:
        raise ValueError("scene_id is missing: pass the path of a scene")
    if max(scene_id.count("/"), scene_id.count("\\")) > MAX_FOLDERS:
        raise ValueError(f"scene_id {scene_id[:40]!r}... has over {MAX_FOLDERS} folders: shorten it")
    return parts_of(scene_id)


def _parse_rows(path: Path, numbered: list[tuple[int, dict[str, Any]]], first: int) -> _Episodes:
    """Parse rows of one scene, given with their numbers in the file; a missing geodesic distance becomes NaN."""
    ids = []
    values = np.empty((len(numbered), 8))
    for k, (index, row) in enumerate(numbered):
        try:
            position = numbers_of("start_position", row.get("start_position"), 3)
            rotation = numbers_of("start_rotation", row.get("start_rotation"), 4)
            goal = numbers_of("goals[0].position", _first_goal(row), 3)
            info = row.get("info") or {}
            if not isinstance(info, dict):
                raise ValueError(
                    f"info is {beginning_of(info)}: give an object, such as one with a 'geodesic_distance'"
                )
            length = info.get("geodesic_distance")
            values[k, 7] = np.nan if length is None else float(length)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path}: episode {index} is malformed: {shorten(str(error), 200)}") from error
        values[k, :7] = (*position, yaw_of(rotation), *goal)
        ids.append(id_of(row, first + index))
    return _Episodes(np.array([first + index for index, _ in numbered]), ids, values)


def id_of(row: Mapping[str, Any], number: int) -> str:
    """Return the ``episode_id`` of an episode as text, by default its number in the file."""
    value = row.get("episode_id")
    return text_of(number if value is None else value)


def numbers_of(field: str, values: Any, count: int) -> list[float]:
    """Return a list of ``count`` finite numbers; otherwise raise a ValueError that names the field."""
    are_numbers = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    if not are_numbers or len(values) != count or not all(-_LARGEST <= value <= _LARGEST for value in values):
        raise ValueError(f"{field} is {beginning_of(values)}: pass a list of {count} finite numbers")
    return [float(value) for value in values]


def _first_goal(row: dict[str, Any]) -> Any:
    """Return the position of a row's first goal; ValueError if it has none."""
    goals = row.get("goals")
    if not isinstance(goals, list) or not goals or not isinstance(goals[0], dict):
        raise ValueError(f"goals is {beginning_of(goals)}: pass a list of one object with a 'position'")
    return goals[0].get("position")


def text_of(value: Any) -> str:
    """Return an id as a string: Habitat's strings and numbers whole, anything else shortened."""
    return str(value) if isinstance(value, (str, int, float)) else beginning_of(value)


def beginning_of(value: Any) -> str:
    """Return the beginning of a value as a string."""
    if value is None:
        return "missing"
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


def _joined(found: list[_Episodes]) -> EpisodeSet:
    """Join episodes of one scene in the order of their rows."""
    order = np.argsort(np.concatenate([one.rows for one in found]))
    values = np.concatenate([one.values for one in found])[order]
    ids = [name for one in found for name in one.ids]
    return episode_set(values[:, :3], values[:, 3], values[:, 4:7], values[:, 7], tuple(ids[k] for k in order))


def yaw_of(rotation: list[float]) -> float:
    """Return the heading in radians of the forward direction -z rotated by a quaternion [x, y, z, w]."""
    x, y, z, w = rotation
    return float(np.arctan2(2 * (x * z + w * y), 1 - 2 * (x * x + y * y)))
