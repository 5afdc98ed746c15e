"""Known datasets of scenes and episodes: where they come from, checks of copies, downloads."""

from __future__ import annotations

import gzip
import http.client
import json
import lzma
import os
import re
import shutil
import struct
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from gym_batchnav.library.sources import assets_dir
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import LFS_POINTER, make_folder, replace_path

MAX_FILES = 2_000_000
MAX_ARCHIVE_BYTES = 2**37
MAX_RATIO = 100  # unpacked bytes per byte of the archive
_CHUNK = 2**20
_HEADER = 64  # bytes by which a file is recognized
_PLACEHOLDERS = r"(\*\*/|\*|\{scene\})"
_TIMEOUT = 60.0  # seconds without a byte
_PAST_THE_END = 416  # of HTTP
_TRIES = 5  # without progress in between

Progress = Callable[[int, int], None]  # gets the bytes done and the bytes in total, 0 if that is unknown


@dataclass(frozen=True, slots=True)
class Files:
    """Files that a dataset has, once or for each scene.

    Attributes:
        pattern: A path in the dataset's folder. ``{scene}`` stands for the name of a scene, ``*`` for part of a name,
            ``**/`` for any folders.
        content: What they hold.
        need: ``"needed"`` if scenes cannot be used without them, otherwise ``"optional"``.
    """

    pattern: str
    content: str
    need: str

    @property
    def is_per_scene(self) -> bool:
        """Whether every scene has such a file."""
        return "{scene}" in self.pattern


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of scenes or of episodes.

    Attributes:
        name: Short name, for ``gym-batchnav data``.
        title: Full name.
        licence: The terms of use in a few words.
        page: Address of the page where access is given, or where the dataset is described.
        access: How to get it, in sentences.
        layout: Its files; the first entry is the one by which scenes, or files of episodes, are found.
        usage: Keywords of an environment that uses it, with ``{folder}`` for the folder of the copy and ``{file}`` for
            the path of a file of episodes.
        num_scenes: The number of scenes of a complete copy, or of each split; None if it varies.
        archive: Address of an archive that anybody may download, empty if there is none.
        repository: Name of a dataset repository on Hugging Face that anybody may download, empty if there is none.
    """

    name: str
    title: str
    licence: str
    page: str
    access: str
    layout: tuple[Files, ...]
    usage: str
    num_scenes: Mapping[str, int] | None = None
    archive: str = ""
    repository: str = ""

    @property
    def can_be_downloaded(self) -> bool:
        """Whether it can be downloaded without a form or an account."""
        return bool(self.archive or self.repository)


@cache
def datasets() -> dict[str, Dataset]:
    """Return all known datasets by name.

    Layouts, addresses and sizes are those of the documentation of Habitat-Sim and Habitat-Lab (``DATASETS.md`` of both)
    and of the datasets' own pages. Nothing is mirrored.
    """
    rows = json.loads((assets_dir() / "datasets.json").read_text(encoding="utf-8"))
    known = (Dataset(**{**row, "layout": tuple(Files(*one) for one in row["layout"])}) for row in rows)
    return {one.name: one for one in known}


def dataset_named(name: str) -> Dataset:
    """Return a dataset by its name.

    Raises:
        ValueError: If there is none; the message lists the names.
    """
    if name not in datasets():
        raise ValueError(f"no dataset is called {name!r}: choose one of {', '.join(datasets())}")
    return datasets()[name]


@dataclass(frozen=True, slots=True)
class FilesReport:
    """The files of one kind that a copy has.

    Attributes:
        files: The kind.
        found: Paths in the folder.
        missing: Names of the scenes that lack their file; empty if the kind is not per scene.
    """

    files: Files
    found: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The contents of a copy of a dataset.

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
        needed = all(one.found and not one.missing for one in self.files if one.files.need == "needed")
        return bool(self.scenes) and needed and not self.damaged


def list_files(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, relative to it, sorted; hidden files and folders are left out.

    Raises:
        FileNotFoundError: The folder does not exist.
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
    """Return the datasets whose layouts fit paths best: several if they look alike, as datasets of episodes do.

    All needed files must be there. Of such layouts, the best is the one whose patterns with a match have the most
    characters, placeholders not counted.
    """
    paths = list(files)
    best: list[Dataset] = []
    most = 0
    for dataset in datasets().values():
        matched = [kind for kind in dataset.layout if any(map(_expression(kind.pattern).fullmatch, paths))]
        characters = sum(len(re.sub(_PLACEHOLDERS, "", kind.pattern)) for kind in matched)
        if characters >= max(most, 1) and all(kind in matched for kind in dataset.layout if kind.need == "needed"):
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
        FileNotFoundError: The folder does not exist.
    """
    paths = list_files(folder)
    found = [
        {path: match.groupdict().get("scene") for path in paths if (match := _expression(kind.pattern).fullmatch(path))}
        for kind in dataset.layout
    ]
    scenes = sorted({scene for of_kind in found for scene in of_kind.values() if scene is not None})
    reports = []
    damaged: dict[str, str] = {}
    for kind, of_kind in zip(dataset.layout, found, strict=True):
        have = set(of_kind.values())
        missing = tuple(scene for scene in scenes if kind.is_per_scene and scene not in have)
        reports.append(FilesReport(kind, tuple(of_kind), missing))
    for path in sorted({path for of_kind in found for path in of_kind}):
        reason = _damage(folder / path)
        damaged |= {path: reason} if reason else {}
        done()
    return CopyReport(dataset, tuple(scenes), tuple(reports), damaged)


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
    """Return what is wrong with a file by its header and size, or an empty string.

    Unpacking that was interrupted leaves files that are cut short.
    """
    if not path.is_file():
        return "is not a regular file, or is a link to a file that does not exist"
    try:
        size = path.stat().st_size
        if size == 0:
            return "is empty"
        if path.name.endswith(".glb"):
            with path.open("rb") as file:
                return _damage_of_glb(file.read(_HEADER), size)
        if path.name.endswith(".json.gz"):
            with gzip.open(path) as file:
                while file.read(_CHUNK):
                    pass
    except (OSError, EOFError, zlib.error) as error:
        return f"cannot be read: {error}"
    return ""


def _damage_of_glb(header: bytes, size: int) -> str:
    """Return what is wrong with a GLB file of a size, or an empty string."""
    if header.startswith(LFS_POINTER):
        return "is a pointer of Git LFS instead of the file: run git lfs pull"
    if len(header) < 12 or header[:4] != b"glTF":
        return "is not a GLB file"
    declared = struct.unpack_from("<I", header, 8)[0]
    return f"has {size:,} of {declared:,} bytes" if declared > size else ""


def download(dataset: Dataset, folder: Path, progress: Progress = lambda done, total: None) -> None:
    """Download a dataset into a folder; an interrupted download is resumed.

    Args:
        dataset: A dataset that can be downloaded without a form.
        folder: Gets the files; created if it does not exist.
        progress: Called with the bytes done and in total while an archive is downloaded.

    Raises:
        ValueError: The dataset needs a form, or its archive is damaged.
        OSError: The server cannot be reached, or the folder cannot be written.
        MissingExtraError: Hugging Face's package is not installed.
    """
    if not dataset.can_be_downloaded:
        raise ValueError(f"dataset {dataset.name!r} cannot be downloaded without a form. {dataset.access}")
    make_folder(folder)
    if dataset.repository:
        with needs_extra("data", f"downloading {dataset.name!r}"):
            from huggingface_hub import snapshot_download
        snapshot_download(dataset.repository, repo_type="dataset", local_dir=str(folder))  # resumes, and shows a bar
        return
    archive = folder / PurePosixPath(urlsplit(dataset.archive).path).name
    fetch(dataset.archive, archive, progress)
    unpack(archive, folder)
    archive.unlink()


def fetch(address: str, path: Path, progress: Progress = lambda done, total: None) -> None:
    """Download a file, and resume from ``<path>.part`` if an earlier try was interrupted.

    Raises:
        OSError: If the server cannot be reached, refuses, or closes the connection repeatedly; the part is kept.
        ValueError: If the file is larger than any known dataset.
    """
    if path.is_file():
        return
    part = path.with_name(f"{path.name}.part")
    tag = path.with_name(f"{path.name}.tag")  # the server's version of the file that the part belongs to
    tries = 0
    while True:
        before = part.stat().st_size if part.is_file() else 0
        try:
            if _fetch_rest(address, part, tag, progress):
                break
            error: Exception = ConnectionError("the connection was interrupted")
        except urllib.error.HTTPError as failure:
            if failure.code == _PAST_THE_END and before:
                if failure.headers.get("Content-Range", "") == f"bytes */{before}":  # killed after the last byte
                    break
                # The file became smaller.
                part.unlink()
                continue
            raise OSError(
                f"{address} cannot be downloaded: the server answers {failure.code} {failure.reason}: try again later, "
                "or download it from the dataset's page (gym-batchnav data NAME)"
            ) from None
        except (OSError, http.client.HTTPException) as failure:
            error = failure
        tries = 0 if part.is_file() and part.stat().st_size > before else tries + 1
        if tries >= _TRIES:
            raise OSError(f"{address} cannot be downloaded: {error}: run the same command again to resume") from error
    replace_path(part, path)
    tag.unlink(missing_ok=True)


def _fetch_rest(address: str, part: Path, tag: Path, progress: Progress) -> bool:
    """Append what a part lacks; return whether it is complete."""
    start = part.stat().st_size if part.is_file() and tag.is_file() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "gym_batchnav"})
    if start:
        request.add_header("Range", f"bytes={start}-")
        request.add_header("If-Range", tag.read_text(encoding="utf-8"))
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        resumes = answer.status == 206
        start = start if resumes else 0
        length = int(answer.headers.get("Content-Length") or 0)
        total = start + length if length else 0
        if total > MAX_ARCHIVE_BYTES:
            raise ValueError(f"{address} has {total:,} bytes, more than any known dataset: try again later")
        version = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if not resumes and version and not version.startswith("W/"):
            tag.write_text(version, encoding="utf-8")
        with part.open("ab" if resumes else "wb") as file:
            done = start
            progress(done, total)
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if done > MAX_ARCHIVE_BYTES:
                    raise ValueError(f"{address} sends more bytes than any known dataset has: try again later")
                progress(done, total)
    return not total or done >= total


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a ZIP archive into a folder; nothing partial is left there if that fails.

    Raises:
        ValueError: It is not a ZIP archive, is damaged, or expands to far more than its size.
        OSError: The folder cannot be written.
    """
    aside = folder / f".{archive.name}.unpacked"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            size = sum(member.file_size for member in file.infolist())
            if size > MAX_RATIO * archive.stat().st_size + 2**20:
                raise ValueError(f"archive '{archive}' claims to hold {size:,} bytes: it is damaged, delete it")
            file.extractall(aside)  # makes no links, and no files outside the folder
        # copytree passes strings, and replace_path takes paths.
        shutil.copytree(aside, folder, copy_function=lambda *ends: replace_path(*map(Path, ends)), dirs_exist_ok=True)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"archive '{archive}' is damaged ({error}): delete it and download it again") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
