"""The folder of a dataset: shards written aside and renamed, their records, and the checks of those from elsewhere."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from gym_batchnav.collect.dataset import (
    MAX_EPISODES,
    RECORD,
    SHARDS,
    DatasetInfo,
    Episode,
    EpisodeRecord,
    Format,
    Shard,
    ShardRecord,
    make_shard,
    read_json,
)
from gym_batchnav.system.storage import make_folder, replace_path, sha256_of

ASIDE = ".aside"  # folder of shards in the making
LOCK = ".lock"
MAX_STEPS = 10**6  # of an episode
_STALE = 86400.0  # seconds


def write_shard(
    root: Path,
    style: Format,
    info: DatasetInfo,
    shard: Shard,
    episodes: Sequence[Episode],
    scene_card: Mapping[str, Any],
) -> ShardRecord:
    """Write a shard, with its episodes in order, aside and rename it, so that its folder is complete when it exists."""
    folder = _aside(root, shard.name)
    folder.mkdir(parents=True)
    try:
        style.write(folder, info, shard, episodes)
        paths = {path: folder / path for path in _files(folder)}
        files = {name: (path.stat().st_size, sha256_of(path)) for name, path in paths.items()}
        record = ShardRecord(
            shard, info.key, tuple(_episode_record(one.about()) for one in episodes), files, scene_card
        )
        (folder / RECORD).write_text(json.dumps(asdict(record), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        _put(folder, root / SHARDS / shard.name)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            remedy = "make room and collect again; finished shards are kept"
            raise OSError(f"cannot write to '{root}': {error.strerror}: {remedy}") from error
        raise
    return record


def prepare_folder(root: Path) -> None:
    """Make the folder of a dataset, and remove what processes on this machine that have been killed left behind."""
    make_folder(root)
    (root / SHARDS).mkdir(exist_ok=True)
    host = socket.gethostname()
    for folder in (root / ASIDE).glob("*"):
        rest = folder.name.partition(".")[2]
        parts = rest.rsplit(".", 2)
        if len(parts) == 3 and parts[0] == host and parts[1].isdigit() and _is_abandoned(folder, int(parts[1])):
            shutil.rmtree(folder, ignore_errors=True)


def remove_aside(root: Path) -> None:
    """Remove the folder of shards in the making if there are none."""
    try:
        (root / ASIDE).rmdir()
    except OSError:
        return


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Let one process at a time finish a dataset; the system unlocks it when the process ends, however it ends."""
    path = root / LOCK
    while True:
        with path.open("ab") as file:
            if sys.platform == "win32":
                _lock_first_byte(file)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(path, file):  # another process had the lock before and has removed the file
                continue
            try:
                yield
            finally:
                with suppress(PermissionError):  # Windows does not remove open files
                    path.unlink()
            return


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock_first_byte(file: BinaryIO) -> None:
    """Lock a file on Windows, which gives up after ten seconds and is then asked again."""
    if sys.platform == "win32":
        import msvcrt

        while True:
            file.seek(0)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                return
            except OSError as error:
                if error.errno not in (errno.EDEADLK, errno.EACCES):
                    raise


def is_finished(root: Path, shard: Shard) -> bool:
    """Return whether a shard is complete."""
    return (root / SHARDS / shard.name / RECORD).is_file()


def finished_shards(root: Path, info: DatasetInfo) -> list[ShardRecord]:
    """Return the records of all finished shards, in the order of the dataset; ValueError for one that does not fit."""
    names = sorted(path.name for path in (root / SHARDS).iterdir() if (path / RECORD).is_file())
    for name in names:
        if (root / SHARDS / name).is_symlink():
            raise ValueError(f"'{root / SHARDS / name}' is a link: remove it, or replace it by the folder")
    records = [read_record(root, info, name) for name in names]
    check_together(records)
    return records


def check_together(records: Sequence[ShardRecord]) -> None:
    """Raise ValueError if an episode is in two shards, or the scene or its episodes changed between two shards."""
    cards: dict[str, ShardRecord] = {}
    last: ShardRecord | None = None
    for record in sorted(records, key=lambda one: (one.shard.scene, one.shard.first)):
        shard = record.shard
        first = cards.setdefault(shard.scene, record)
        if first.scene_card != record.scene_card:
            raise ValueError(
                f"scene {shard.scene!r} or its episodes differ between shards {first.shard.name} and {shard.name}: it "
                "was changed in between; remove one of these folders"
            )
        if last is not None and last.shard.scene == shard.scene and last.shard.first + last.shard.count > shard.first:
            raise ValueError(f"shards {last.shard.name} and {shard.name} hold the same episodes: remove one of them")
        last = record


def read_record(root: Path, info: DatasetInfo, name: str) -> ShardRecord:
    """Return the record of a finished shard, which may come from strangers; ValueError if it does not fit."""
    path = root / SHARDS / name / RECORD
    values = read_json(path)
    try:
        shard = Shard(**{key: values["shard"][key] for key in ("name", "scene", "first", "count")})
        episodes = tuple(_episode_record(one) for one in values["episodes"])
        files = {str(key): (int(one[0]), str(one[1])) for key, one in values["files"].items()}
        record = ShardRecord(shard, str(values["key"]), episodes, files, dict(values["scene_card"]))
        numbers = [one.number for one in episodes]
        fits = 0 <= shard.first and 0 < shard.count <= MAX_EPISODES
        fits = fits and numbers == list(range(shard.first, shard.first + shard.count))
        fits = fits and shard == make_shard(info.key, shard.scene, shard.first, shard.count) and shard.name == name
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"'{path}' is not the record of a shard ({reason}): remove its folder") from error
    if record.key != info.key:
        raise ValueError(f"'{path}' has the key {record.key} of another dataset, not {info.key}: remove its folder")
    if not fits:
        raise ValueError(f"'{path}' does not fit the name of its folder: remove the folder and collect it again")
    return record


def check_files(root: Path, record: ShardRecord, checksums: bool = True) -> None:
    """Raise ValueError, which names the file, unless the folder of a shard holds just the files of its record."""
    folder = root / SHARDS / record.shard.name
    found = [path for path in _files(folder) if path != RECORD]
    different = sorted({*found} ^ {*record.files})
    if different:
        raise ValueError(
            f"'{folder / different[0]}' is missing or unexpected: remove the folder '{folder}' and collect it again"
        )
    for path, (size, digest) in record.files.items():
        same = (folder / path).stat().st_size == size and (not checksums or sha256_of(folder / path) == digest)
        if not same:
            raise ValueError(f"'{folder / path}' is damaged: remove the folder '{folder}' and collect it again")


def copy_shard(source: Path, root: Path, name: str) -> None:
    """Copy a finished shard into another dataset, by hard links where the file system allows."""
    aside = _aside(root, name)
    try:
        shutil.copytree(source / SHARDS / name, aside, copy_function=link_or_copy, symlinks=True)
        _put(aside, root / SHARDS / name)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def link_or_copy(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Link a file, or copy it where the file system has no links or is another one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _aside(root: Path, name: str) -> Path:
    """Return the path of a new folder for a shard in the making; it tells the process that makes it."""
    return root / ASIDE / f"{name}.{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"


def _put(folder: Path, target: Path) -> None:
    """Rename a complete folder; if another process was faster, its folder stays."""
    try:
        replace_path(folder, target)
    except OSError as error:
        if target.exists() and not (target / RECORD).is_file():
            raise ValueError(f"'{target}' has no {RECORD}, so it is incomplete: remove the folder") from error
        if not target.exists():
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, with "/"; ValueError for links, which may lead outside."""
    found = []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise ValueError(f"'{path}' is neither a file nor a folder: remove it")
        found += [Path(place, name).relative_to(folder).as_posix() for name in files]
    return sorted(found)


def _episode_record(values: Any) -> EpisodeRecord:
    record = EpisodeRecord(
        number=int(values["number"]),
        id=str(values["id"]),
        num_steps=int(values["num_steps"]),
        total_reward=float(values["total_reward"]),
        start_distance=float(values["start_distance"]),
        category=str(values["category"]),
        measures={str(name): value for name, value in values["measures"].items()},
    )
    if not 0 < record.num_steps <= MAX_STEPS or not all(
        isinstance(one, (int, float)) for one in record.measures.values()
    ):
        raise ValueError(f"episode {record.number} has {record.num_steps} steps, or measures that are not numbers")
    return record


def _is_abandoned(folder: Path, process: int) -> bool:
    """Return whether the process of this machine that made a folder has ended, or on Windows, left it for a day."""
    if sys.platform == "win32":  # os.kill, which asks elsewhere, ends the process there
        return folder.stat().st_mtime < time.time() - _STALE
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
