"""Checks of a user's copy of a dataset: which files it has, which it lacks, and whether they are whole."""

from __future__ import annotations

import gzip
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gym_batchnav.datasets.catalogue import DATASETS, Dataset, Files
from gym_batchnav.system.storage import sha256_of, write_atomically

MAX_FILES = 2_000_000
_CHUNK = 2**20
_MAX_SUMS_BYTES = 2**30
_HEADER = 64  # bytes that tell what a file is
_PLACEHOLDERS = r"(\*\*/|\*|\{scene\})"


@dataclass(frozen=True, slots=True)
class FilesReport:
    """What a copy has of one kind of files.

    Attributes:
        files: The kind.
        found: Paths in the folder.
        missing: Names of the scenes that lack their file; empty if the kind is not per scene.
    """

    files: Files
    found: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing of this kind is missing, as far as can be told."""
        return bool(self.found) and not self.missing


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy of a dataset has.

    Attributes:
        dataset: The dataset.
        scenes: Names of the scenes that were found.
        files: A report per kind of files, in the order of the dataset's layout.
        damaged: Paths of files that are cut short or unreadable, with the reason.
    """

    dataset: Dataset
    scenes: tuple[str, ...]
    files: tuple[FilesReport, ...]
    damaged: Mapping[str, str]

    @property
    def is_usable(self) -> bool:
        """Whether there are scenes, nothing that they need is missing, and no file is damaged."""
        needed = all(report.is_complete for report in self.files if report.files.is_needed)
        return bool(self.scenes) and needed and not self.damaged


def list_files(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, relative to it, sorted; hidden files and folders are left out.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: There are more than two million files.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder '{folder}': pass the folder of a dataset")
    found: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        base = Path(parent).relative_to(folder)
        found += [(base / name).as_posix() for name in names if not name.startswith(".")]
        if len(found) > MAX_FILES:
            raise ValueError(f"folder '{folder}' has more than {MAX_FILES:,} files: pass the folder of one dataset")
    return sorted(found)


def recognize(files: Iterable[str]) -> list[Dataset]:
    """Return the datasets whose layouts fit paths best, none if some needed files of every dataset are missing.

    Datasets of episodes look alike.

    The layout that fits best is the one of whose patterns, apart from their placeholders, the most characters occur.
    """
    paths = list(files)
    best: list[Dataset] = []
    most = 0
    for dataset in DATASETS.values():
        matched = [kind for kind in dataset.layout if any(map(_matcher(kind.pattern), paths))]
        characters = sum(len(re.sub(_PLACEHOLDERS, "", kind.pattern)) for kind in matched)
        if characters >= max(most, 1) and all(kind in matched for kind in dataset.layout if kind.is_needed):
            best = [*best, dataset] if characters == most else [dataset]
            most = characters
    return best


def check_copy(folder: Path, dataset: Dataset, done: Callable[[], None] = lambda: None) -> CopyReport:
    """Compare a folder with the layout of a dataset, and read the headers of its files.

    Args:
        folder: The dataset's folder.
        dataset: The dataset.
        done: Called after each file.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    paths = list_files(folder)
    per_scene = [kind for kind in dataset.layout if kind.is_per_scene]
    scenes = sorted({name for path in paths for kind in per_scene if (name := _scene_in(kind.pattern, path))})
    reports = []
    used: set[str] = set()
    for kind in dataset.layout:
        match = _matcher(kind.pattern)
        found = tuple(path for path in paths if match(path))
        used.update(found)
        have = {_scene_in(kind.pattern, path) for path in found}
        missing = tuple(scene for scene in scenes if kind.is_per_scene and scene not in have)
        reports.append(FilesReport(kind, found, missing))
    damaged = {}
    for path in sorted(used):
        reason = _damage(folder / path)
        if reason:
            damaged[path] = reason
        done()
    return CopyReport(dataset, tuple(scenes), tuple(reports), damaged)


def write_checksums(folder: Path, out: Path, done: Callable[[], None] = lambda: None) -> int:
    """Write the SHA-256 of every file of a folder, in the form that ``sha256sum --check`` reads.

    Returns:
        The number of files.
    """
    lines = []
    for path in list_files(folder):
        if (folder / path).is_file() and (folder / path).resolve() != out.resolve():
            lines.append(f"{sha256_of(folder / path)}  {path}\n")
        done()
    write_atomically(out, "".join(lines).encode())
    return len(lines)


def compare_checksums(folder: Path, sums: Path, done: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Compare a folder with checksums that ``write_checksums`` or ``sha256sum`` wrote.

    Returns:
        The paths that differ, with what is wrong with each.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It does not hold such checksums, or names files outside the folder.
    """
    if not sums.is_file():
        raise FileNotFoundError(f"there is no file '{sums}' of checksums")
    if sums.stat().st_size > _MAX_SUMS_BYTES:
        raise ValueError(f"'{sums}' is larger than a list of checksums can be")
    wrong = {}
    for number, line in enumerate(sums.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if match is None:
            raise ValueError(f"line {number} of '{sums}' is not a checksum: pass a file that sha256sum wrote")
        digest, name = match.groups()
        path = folder / name
        if Path(name).is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"line {number} of '{sums}' names {name!r}, which is not inside '{folder}'")
        if not path.is_file():
            wrong[name] = "is missing"
        elif sha256_of(path) != digest:
            wrong[name] = "differs"
        done()
    return wrong


def _matcher(pattern: str) -> Callable[[str], bool]:
    expression = _expression(pattern)
    return lambda path: expression.fullmatch(path) is not None


def _scene_in(pattern: str, path: str) -> str | None:
    """Return the name of the scene in a path that a pattern with ``{scene}`` matches, otherwise None."""
    found = _expression(pattern).fullmatch(path)
    return None if found is None else found.groupdict().get("scene")


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern of ``Files``."""
    words = {"**/": "(?:.*/)?", "*": "[^/]*"}
    parts: list[str] = []
    for part in re.split(_PLACEHOLDERS, pattern):
        if part == "{scene}":
            parts.append("(?P=scene)" if any("?P<scene>" in earlier for earlier in parts) else "(?P<scene>[^/]+?)")
        else:
            parts.append(words.get(part, re.escape(part)))
    return re.compile("".join(parts))


def _damage(path: Path) -> str:
    """Return what is wrong with a file by its header and size, or an empty string."""
    if not path.is_file():
        return "is a link to a file that does not exist, or no plain file"
    try:
        return _damage_inside(path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _damage_inside(path: Path) -> str:
    """Return what is wrong with a plain file, or an empty string.

    Unpacking that was interrupted leaves files that are cut short.
    """
    size = path.stat().st_size
    if size == 0:
        return "is empty"
    name = path.name
    if name.endswith(".glb"):
        with path.open("rb") as file:
            header = file.read(_HEADER)
        if header.startswith(b"version https://git-lfs"):
            return "is a pointer of Git LFS instead of the file: run git lfs pull"
        if len(header) < 12 or header[:4] != b"glTF":
            return "is not a GLB file"
        declared = struct.unpack_from("<I", header, 8)[0]
        return f"has {size:,} of {declared:,} bytes" if declared > size else ""
    if name.endswith(".json.gz"):
        try:
            with gzip.open(path) as file:
                while file.read(_CHUNK):
                    pass
        except (OSError, EOFError, zlib.error) as error:
            return f"cannot be unpacked: {error}"
    return ""
