"""Downloads of datasets that need no form: interrupted ones are resumed, and no archive is left half unpacked."""

from __future__ import annotations

import http.client
import shutil
import stat
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from gym_batchnav.datasets.catalogue import Dataset
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import make_folder, replace_path

MAX_ARCHIVE_BYTES = 2**37
_MAX_RATIO = 100  # unpacked bytes per byte of the archive
_CHUNK = 2**20
_TIMEOUT = 60.0  # seconds without a byte
_PAST_THE_END = 416  # of HTTP
_TRIES = 5  # without progress in between

Progress = Callable[[int, int], None]  # gets the bytes done and the bytes in total, 0 if that is unknown


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
            if failure.code == _PAST_THE_END and before:  # killed after the last byte, or the file became smaller
                if _is_whole(failure, before):
                    break
                part.unlink()
                continue
            raise OSError(
                f"{address} cannot be downloaded: the server answers {failure.code} {failure.reason}"
            ) from None
        except (OSError, http.client.HTTPException) as failure:
            error = failure
        tries = 0 if part.is_file() and part.stat().st_size > before else tries + 1
        if tries >= _TRIES:
            raise OSError(f"{address} cannot be downloaded: {error}: run the same command again to resume") from error
    replace_path(part, path)
    tag.unlink(missing_ok=True)


def _is_whole(failure: urllib.error.HTTPError, size: int) -> bool:
    """Return whether a server that refuses to send more than ``size`` bytes says that the file has no more."""
    return failure.headers.get("Content-Range", "") == f"bytes */{size}"


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
            raise ValueError(f"{address} has {total:,} bytes, more than any known dataset")
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
                    raise ValueError(f"{address} sends more bytes than any known dataset has")
                progress(done, total)
    return not total or done >= total


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a ZIP archive into a folder; nothing partial is left there if that fails.

    Raises:
        ValueError: It is not a ZIP archive, is damaged, holds links or paths outside the folder, or expands to far
            more than its size.
        OSError: The folder cannot be written.
    """
    aside = folder / f".{archive.name}.unpacked"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            members = [member for member in file.infolist() if not member.is_dir()]
            size = sum(member.file_size for member in members)
            if size > _MAX_RATIO * archive.stat().st_size + 2**20:
                raise ValueError(f"archive '{archive}' claims to hold {size:,} bytes: it is damaged, delete it")
            for member in members:
                _check_member(archive, member)
            file.extractall(aside)
        _merge(aside, folder)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"archive '{archive}' is damaged ({error}): delete it and download it again") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _check_member(archive: Path, member: zipfile.ZipInfo) -> None:
    """Raise ValueError if a member of an archive is a link or would lie outside the folder."""
    path = PurePosixPath(member.filename.replace("\\", "/"))
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    if is_link or path.is_absolute() or ".." in path.parts or ":" in member.filename:
        raise ValueError(f"archive '{archive}' holds {member.filename!r}, which is not inside it: do not use it")


def _merge(source: Path, folder: Path) -> None:
    """Move all files of a folder to another, over those that are there."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            place = folder / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_path(path, place)
