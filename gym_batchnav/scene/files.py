"""The files of one scene, which are read only within its folder, limited in size, and hashed."""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

MAX_FILE_BYTES = 2**32
MAX_TEXT_BYTES = 2**29  # parsing text takes about ten times its size


class SceneError(ValueError):
    """The error of a scene that cannot be loaded or saved; the message names the scene, the problem and the remedy.

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


class SceneFiles:
    """A scene's main file and the files that it refers to.

    References are followed only into the folder of the main file and the folders inside it. Absolute paths, ``..``, web
    addresses and symbolic links out of that folder are errors. If the main file is a link, as in the caches of download
    tools, the folder of its target is allowed as well.

    Args:
        path: The scene's main file.

    Attributes:
        path: The scene's main file.
        warnings: Content that was left out or guessed, one sentence each; readers append to it.
        to_warn: The warnings that are also issued as Python warnings; see ``warn``.
        missing: Textures that could not be read, in order; readers append to it.
        digests: Hexadecimal SHA-256 of every requested file, by its path in the folder; "" for a missing file.
        num_bytes: The size of all files read so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.to_warn: list[str] = []
        self.missing: list[str] = []
        self.digests: dict[str, str] = {}
        self.num_bytes = 0
        self._read: dict[Path, bytes] = {}
        self._folders: dict[Path, dict[str, Path]] = {}

    def main(self, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Read the scene's main file of at most ``max_bytes``."""
        return self._bytes(self.path, max_bytes)

    def beside(
        self, uri: str, *, quoted: bool = False, any_case: bool = False, max_bytes: int = MAX_FILE_BYTES
    ) -> bytes:
        """Read a file that the scene refers to.

        Args:
            uri: Its path relative to the scene's folder, with slashes or backslashes.
            quoted: Whether to decode percent escapes, as in a URI.
            any_case: Whether to ignore case if there is no file of exactly this name.
            max_bytes: Limit of the file's size.

        Raises:
            ValueError: If the path leads out of the scene's folder, or the file is too large.
            FileNotFoundError: If there is no such file.
        """
        relative = PurePosixPath((unquote(uri) if quoted else uri).strip().replace("\\", "/"))
        outside = relative.is_absolute() or ".." in relative.parts or ":" in str(relative) or "\0" in str(relative)
        if outside or not relative.parts:
            raise ValueError(
                f"it refers to {reprlib.repr(uri)}, which is not inside its folder: put the file next to the scene"
            )
        path = self.path.parent / relative
        if any_case and not path.exists():
            self.digests[relative.as_posix()] = ""
            path = self._in_any_case(relative.parts) or path
        real = path.resolve()
        if not any(real.is_relative_to(home) for home in (self.path.parent.resolve(), self.path.resolve().parent)):
            raise ValueError(f"it refers to {uri!r}, a link out of its folder: put the file itself there")
        return self._bytes(path, max_bytes)

    def warn(self, sentence: str) -> None:
        """Add a warning that is also issued as a Python warning."""
        self.warnings.append(sentence)
        self.to_warn.append(sentence)

    def _in_any_case(self, parts: Sequence[str]) -> Path | None:
        """Return the file in the scene's folder with these parts of the path, ignoring case; None if there is none."""
        found: Path | None = self.path.parent
        for part in parts:
            if found is None or not found.is_dir():
                return None
            if found not in self._folders:
                self._folders[found] = {entry.name.casefold(): entry for entry in sorted(found.iterdir())}
            found = self._folders[found].get(part.casefold())
        return found

    def _bytes(self, path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        if path not in self._read:
            name = path.relative_to(self.path.parent).as_posix()
            if not path.is_file():
                self.digests[name] = ""
                raise FileNotFoundError(f"{str(path)!r} does not exist or is not a file")
            if path.stat().st_size > max_bytes:
                size = f"{path.name} has {path.stat().st_size:,} bytes, the limit is {max_bytes:,}"
                raise ValueError(f"{size}: split it, or save the scene as GLB")
            self._read[path] = path.read_bytes()
            self.num_bytes += len(self._read[path])
            self.digests[name] = hashlib.sha256(self._read[path]).hexdigest()
        return self._read[path]
