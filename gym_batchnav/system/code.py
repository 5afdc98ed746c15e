"""Digests of source code, which key the caches on disk so that changed code never reads old results."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gym_batchnav.system.extras import installed_version

PACKAGE = Path(__file__).parents[1]
_NAME = PACKAGE.name
_HAS_SOURCES = (PACKAGE / "system" / "code.py").is_file()
_ONLY_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
_STATEMENT = rf"(?:from[ \t]+({_NAME}[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))"
_IMPORTS = {late: re.compile(("^[ \t]*" if late else "^") + _STATEMENT, re.MULTILINE) for late in (False, True)}


@cache
def code_digest(*roots: str, without: tuple[str, ...] = (), packages: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of modules, of all modules of this package that they import, and of package versions.

    If the package has no sources (it is compiled, or in a zip archive), its version is used instead. Roots are files,
    and ``without`` files or folders to ignore, relative to the package's folder; packages need not be installed.
    """
    if not _HAS_SOURCES:
        return digest_of([], (*packages, "gym-batchnav"))
    return digest_of(imported_by([PACKAGE / root for root in roots], True, without), packages)


@cache
def package_digest() -> str:
    """Return the SHA-256 of all sources of the package; see ``code_digest``."""
    return digest_of(sorted(PACKAGE.rglob("*.py")), () if _HAS_SOURCES else ("gym-batchnav",))


def imported_by(files: Iterable[Path], late: bool = False, without: tuple[str, ...] = ()) -> list[Path]:
    """Return modules and all modules of this package that they import, directly or through others, sorted.

    Parent packages and imports for type checkers do not count: a module reads no names from them. ``late`` imports are
    those inside functions, except those of ``viz``, which only show results.

    Raises:
        FileNotFoundError: If one of the files does not exist.
    """
    todo = list(files)
    found: set[Path] = set()
    without = (*without, "viz/") if late else without
    while todo:
        file = todo.pop()
        if file not in found and not file.relative_to(PACKAGE).as_posix().startswith(without or "\0"):
            found.add(file)
            todo += _read_by(file, late)
    return sorted(found)


@cache
def _read_by(file: Path, late: bool) -> tuple[Path, ...]:
    """Return the files of this package from which a module imports names."""
    found = set()
    for origin, items, modules in _IMPORTS[late].findall(_ONLY_FOR_TYPES.sub("", file.read_text("utf-8"))):
        names = [f"{origin}.{item}" for item in re.findall(r"\w+", re.sub(r"\bas\s+\w+", "", items))]
        for name in names if origin else re.findall(rf"\b{_NAME}[\w.]*", modules):
            path = PACKAGE.joinpath(*name.split(".")[1:])
            candidates = (path.with_suffix(".py"), path / "__init__.py", path.parent.with_suffix(".py"))
            found.add(next((one for one in candidates if one.is_file()), path.parent / "__init__.py"))
    return tuple(found)


def digest_of(files: Iterable[Path], packages: Iterable[str], salt: str = "") -> str:
    """Return the SHA-256 of files of the package, of the versions of other packages, and of a string."""
    digest = hashlib.sha256(salt.encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(PACKAGE).as_posix()} {len(content)} ".encode())
        digest.update(content)
    for name in packages:
        digest.update(f"{name} {installed_version(name) or 'not installed'} ".encode())
    return digest.hexdigest()
