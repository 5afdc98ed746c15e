"""The files of one scene, which are read only within its folder, limited in size, and hashed."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import posixpath
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

MAX_FILE_BYTES = 2**32
MAX_TEXT_BYTES = 2**29  # parsing text takes about ten times its size
SHARED_SUFFIXES = (".xml", ".obj", ".stl", ".msh", ".png", ".jpg", ".jpeg")  # of files that scenes may share
_MAX_MESSAGE = 600  # characters; messages may quote the file
_MALFORMED = (LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, csv.Error)
_MIN_STORE_PARTS = 4  # of the path of a folder with shared files, counting the root


class SceneError(ValueError):
    """The error of a scene that cannot be used or saved; the message names the scene, the problem and the remedy.

    Args:
        scene: Path or name of the scene.
        reason: The problem and the remedy, without the scene.

    Attributes:
        scene: Path or name of the scene.
        reason: The problem and the remedy, without the scene.
    """

    def __init__(self, scene: str | Path, reason: str) -> None:
        super().__init__(str(scene), reason)  # with both arguments, so that it can be pickled
        self.scene = str(scene)
        self.reason = reason

    def __str__(self) -> str:
        """Return the whole message."""
        return f"scene '{self.scene}': {self.reason}"


class SceneNotFoundError(SceneError, FileNotFoundError):
    """The error of a scene whose file does not exist.

    Args:
        scene: Path of the file.
        reason: The problem and the remedy, which name the path, since others may know the scene by its name.
    """

    def __init__(self, scene: str | Path, reason: str | None = None) -> None:
        super().__init__(scene, reason or f"file '{scene}' does not exist: check the path")

    def __str__(self) -> str:
        """Return the whole message."""
        return f"scene {self.reason}"


@contextmanager
def naming(path: Path, remedy: str) -> Iterator[None]:
    """Convert errors of the block to a SceneError that names the file, with a remedy for malformed ones."""
    try:
        yield
    except SceneError:
        raise
    except OSError as error:
        wrong_path = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
        remedy = "remove the cause and try again"
        if isinstance(error, PermissionError):
            remedy = "make it readable"
        elif isinstance(error, wrong_path) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            remedy = "put the file there or check the path"
        raise SceneError(path, f"{str(error)[:_MAX_MESSAGE]}: {remedy}") from error
    except MemoryError as error:
        raise SceneError(path, "there is not enough memory to load it: free some, or simplify it") from error
    except (ValueError, *_MALFORMED) as error:
        plain = str(error) if isinstance(error, ValueError) else f"it is malformed ({error!r}): {remedy}"
        shown = plain if len(plain) <= _MAX_MESSAGE else f"{plain[:_MAX_MESSAGE]}... (the file is damaged): {remedy}"
        raise SceneError(path, shown) from error


@contextmanager
def naming_part(name: str, remedy: str | None = "fix or remove it") -> Iterator[None]:
    """Convert errors of the block to a ValueError that names a file to which the scene refers, with a remedy.

    None keeps the remedies of ValueErrors.
    """
    try:
        yield
    except ValueError as error:
        shown = f": {error}" if remedy is None else f" ({error}): {remedy}"
        raise ValueError(f"'{name}' cannot be used{shown}") from error
    except _MALFORMED as error:
        raise ValueError(f"'{name}' is malformed ({error!r}): {remedy or 'fix it'}") from error


class SceneFiles:
    """A scene's main file and the files that it refers to.

    References are followed only into the folder of the main file and the folders inside it. Absolute paths, web
    addresses, ``..`` and symbolic links out of that folder are errors. If the main file is a link, as in the caches of
    download tools, the folder of its target is allowed as well.

    Args:
        path: The scene's main file.
        shared: A folder around the scene's own that several scenes share. References may lead to files in it that end
            in one of ``SHARED_SUFFIXES``, with ``..`` too.
        links: A folder in the shared one whose links, which installers make, are followed, except those to folders
            near the root or around the shared folder or the user's home.

    Attributes:
        path: The scene's main file.
        warnings: Content that was left out or guessed, one sentence each; readers append to it.
        python_warnings: The warnings that are also issued as Python warnings; see ``warn``.
        missing: Textures that could not be read, in order; readers append to it.
        digests: Hexadecimal SHA-256 of every requested file, by its path in the folder; "" for a missing file.
        num_bytes: The size of all files read so far.
    """

    def __init__(self, path: Path, shared: Path | None = None, links: Path | None = None) -> None:
        self.path = path
        self._shared = shared
        self._links = links
        self.warnings: list[str] = []
        self.python_warnings: list[str] = []
        self.missing: list[str] = []
        self.digests: dict[str, str] = {}
        self.num_bytes = 0
        self._main: bytes | None = None  # only the main file stays in memory, others could be as large together
        self._allowed: list[Path] | None = None  # see _allowed_folders
        self._folders: dict[Path, dict[str, Path]] = {}

    def main(self, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Read the scene's main file of at most ``max_bytes``, once."""
        if self._main is None:
            self._main = self._bytes(self.path, max_bytes)
        return self._main

    def beside(
        self, uri: str, *, quoted: bool = False, any_case: bool = False, max_bytes: int = MAX_FILE_BYTES
    ) -> bytes:
        """Read a file that the scene refers to, which is not kept.

        Args:
            uri: Its path relative to the scene's folder, with slashes or backslashes.
            quoted: Whether to decode percent escapes, as in a URI.
            any_case: Whether to ignore case if there is no file of exactly this name.
            max_bytes: Limit of the file's size.

        Raises:
            ValueError: If the path leads out of the scene's folder, or the file is too large or changes meanwhile.
            FileNotFoundError: If the file does not exist.
        """
        return self._bytes(self.path_of(uri, quoted=quoted, any_case=any_case), max_bytes)

    def optional(self, uri: str) -> bytes | None:
        """Read a file as ``beside`` does, ignoring case; None if it is missing."""
        try:
            return self.beside(uri, any_case=True)
        except OSError:
            return None

    def part(self, uri: str) -> SceneFiles:
        """Return the record of another scene file to which this scene refers, whose digest is taken here as well.

        Args:
            uri: Its path, as for ``beside``.

        Raises:
            ValueError: If the path leads out of the scene's folder, or the file is too large.
            FileNotFoundError: If the file does not exist.
        """
        path = self.path_of(uri)
        found = SceneFiles(path)
        found._main = self._bytes(path)
        found.num_bytes = len(found._main)
        return found

    def path_of(self, uri: str, *, quoted: bool = False, any_case: bool = False) -> Path:
        """Return the path of a file that the scene refers to, as a path in the scene's folder; see ``beside``."""
        text = (unquote(uri) if quoted else uri).replace("\\", "/")
        relative = PurePosixPath(text if os.path.lexists(self.path.parent / text.replace("\0", "")) else text.strip())
        outside = relative.is_absolute() or ":" in str(relative) or "\0" in str(relative)
        if not outside and relative.parts:
            relative = PurePosixPath(posixpath.normpath(relative.as_posix()))  # ``..`` only at its beginning
            outside = ".." in relative.parts and not self._is_shared(relative)
        if outside or not relative.parts:
            raise ValueError(f"it refers to {reprlib.repr(uri)}, which is not inside its folder: {self._remedy()}")
        path = self.path.parent / relative
        if any_case and not path.exists():
            self.digests[relative.as_posix()] = ""
            path = self._in_any_case(relative.parts) or path
        real = path.resolve()
        if not any(real.is_relative_to(folder) for folder in self._allowed_folders()):
            raise ValueError(f"it refers to {uri!r}, a link out of its folder: put the file itself there")
        return path

    def _is_shared(self, relative: PurePosixPath) -> bool:
        """Return whether a path that begins with ``..`` leads to a file that scenes share."""
        path = Path(os.path.abspath(self.path.parent / relative))
        inside = self._shared is not None and path.is_relative_to(self._shared)
        return inside and path.suffix.lower() in SHARED_SUFFIXES

    def _remedy(self) -> str:
        if self._shared is None:
            return "put the file next to the scene"
        endings = ", ".join(SHARED_SUFFIXES)
        return f"put the file there, or anywhere in '{self._shared}' if it ends in one of {endings}"

    def _allowed_folders(self) -> list[Path]:
        """Return the folders in which the targets of links may lie."""
        if self._allowed is None:
            self._allowed = [self.path.parent.resolve(), self.path.resolve().parent]
            if self._shared is not None:
                self._allowed.append(self._shared.resolve())
            if self._links is not None:
                linked = [self._links.resolve(), *(entry.resolve() for entry in sorted(self._links.iterdir()))]
                self._allowed += [one for one in linked if self._is_store(one)]
        return self._allowed

    def _is_store(self, target: Path) -> bool:
        """Return whether a link may lead to a folder, which must not hold everybody's or all of the user's files."""
        inner = [Path(os.path.expanduser("~")), *([] if self._shared is None else [self._shared])]
        return len(target.parts) >= _MIN_STORE_PARTS and not any(one.resolve().is_relative_to(target) for one in inner)

    def warn(self, sentence: str) -> None:
        """Add a warning that is also issued as a Python warning."""
        self.warnings.append(sentence)
        self.python_warnings.append(sentence)

    def _in_any_case(self, parts: Sequence[str]) -> Path | None:
        """Return the file in the scene's folder with these parts of the path, ignoring case; None if there is none."""
        found: Path | None = self.path.parent
        for part in parts:
            if found is None or not found.is_dir():
                return None
            if part == "..":
                found = found.parent
                continue
            if found not in self._folders:
                self._folders[found] = {entry.name.casefold(): entry for entry in sorted(found.iterdir())}
            found = self._folders[found].get(part.casefold())
        return found

    def _bytes(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        if path == self.path and self._main is not None:
            return self._main
        name = Path(os.path.relpath(path, self.path.parent)).as_posix()
        if not path.is_file():
            self.digests[name] = ""
            raise FileNotFoundError(f"{str(path)!r} does not exist or is not a file")
        if path.stat().st_size > max_bytes:
            size = f"{path.name} has {path.stat().st_size:,} bytes, the limit is {max_bytes:,}"
            raise ValueError(f"{size}: split it, or save the scene as GLB")
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        before = self.digests.get(name)
        if before and before != digest:
            raise ValueError(f"'{name}' has changed while the scene was read: load it again")
        if not before:
            self.num_bytes += len(data)
        self.digests[name] = digest
        return data
