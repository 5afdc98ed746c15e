"""The folders in which Numba stores the machine code of this package's kernels, one per module and its sources.

To decide whether machine code is up to date, Numba checks only the file of the kernel. A kernel also contains the code
of the kernels that it calls and the constants that it imports, so stale machine code could read wrong addresses. Each
module's folder is therefore named after a digest of the module and of all modules of the package that it imports: a
change recompiles what depends on it and nothing else. Numba itself keys its entries by processor.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core import caching

from gym_batchnav.system.code import PACKAGE, digest_of, imported_by
from gym_batchnav.system.storage import is_writable

KEPT_FOLDERS = 4  # most recently used folders per module, for checkouts that switch between branches
_IN_USE = 86400.0  # seconds after its last use in which another process may still need a folder
_BEGAN = time.time()
_OURS = re.compile(rf"{PACKAGE.name}\.[\w.]+-[0-9a-f]{{16}}")
_KERNEL = re.compile(r"^\s*@(njit|cfunc)\b", re.MULTILINE)


def use_kernel_cache() -> None:
    """Make Numba ask ``KernelLocator`` where this package's kernels are stored; other packages' are not affected.

    Idempotent. Called when ``system.jit`` is imported, so before the first kernel is made.
    """
    names = vars(caching)
    implementation = names["CacheImpl" if "CacheImpl" in names else "_CacheImpl"]  # the latter before Numba 0.62
    locators = implementation._locator_classes
    if KernelLocator not in locators:
        locators.insert(0, KernelLocator)
        names["IndexDataCacheFile"] = KernelFiles


class KernelFiles(caching.IndexDataCacheFile):
    """The index of a kernel's signatures and the files of their machine code.

    Numba numbers the files by an index that it reads and writes without a lock: of two processes that store different
    signatures at the same time, one could overwrite the other's file, and the index would lead to the wrong machine
    code. The files of this package's kernels have names that are not used twice, so that at worst a signature is
    compiled again.
    """

    def _data_name(self, number: int) -> str:
        """Return the name of a new file; called by Numba."""
        name = str(super()._data_name(number))
        if not _OURS.fullmatch(Path(self._cache_path).name):
            return name
        return f"{name.removesuffix('.nbc')}-{secrets.token_hex(8)}.nbc"


class KernelLocator(caching._CacheLocator):  # Numba has no public class to derive from
    """The folder of the machine code of a kernel, for kernels of this package."""

    def __init__(self, function: Callable[..., Any], file: Path, base: Path) -> None:
        self._line = function.__code__.co_firstlineno
        self._digest = module_digest(file)
        self._module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        self._folder = base / f"{self._module}-{self._digest[:16]}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> KernelLocator | None:
        """Return a locator, or None if Numba has to find a folder itself; called by Numba."""
        file = Path(py_file)
        base = kernel_folder()
        if base is None or not file.is_relative_to(PACKAGE) or not file.is_file():
            return None
        return cls(py_func, file, base)

    def ensure_cache_path(self) -> None:
        """Create the folder; remove those of other sources of the same module that were not used for long."""
        if self._folder.is_dir():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        _remove_old(self._folder.parent, self._module)

    def get_cache_path(self) -> str:
        """Return the folder of the module's machine code."""
        with suppress(OSError):
            os.utime(self._folder)
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return the digest of all sources that the kernel can depend on."""
        return self._digest

    def get_disambiguator(self) -> str:
        """Return what tells apart kernels of the same name in one module."""
        return str(self._line)


@cache
def module_digest(file: Path) -> str:
    """Return the SHA-256 of a module, of the modules that it imports, and of all else that kernels depend on.

    If one of them was changed after this process began, it may have been imported before, so that no other process may
    use the machine code.
    """
    files = imported_by([file])
    now = time.time()  # files of clocks that are ahead were not changed
    changed = any(_BEGAN < one.stat().st_mtime <= now for one in files)
    return digest_of(files, ("numba", "llvmlite", "numpy"), salt=_machine() + changed * secrets.token_hex(16))


@cache
def kernels_digest() -> str:
    """Return the SHA-256 of all modules that have kernels; it changes when a kernel has to be compiled again."""
    files = sorted(file for file in PACKAGE.rglob("*.py") if _KERNEL.search(file.read_text("utf-8")))
    return hashlib.sha256("".join(map(module_digest, files)).encode()).hexdigest()


@cache
def _machine() -> str:
    return f"{platform.python_implementation()} {platform.python_version()} {platform.machine()} {platform.system()}"


def kernel_folder() -> Path | None:
    """Return the folder of all machine code: NUMBA_CACHE_DIR or the user's cache; None if neither is writable."""
    return _first_writable(vars(numba.config)["CACHE_DIR"])


@cache
def _first_writable(chosen: str) -> Path | None:
    if chosen:
        return Path(chosen).absolute()
    for path in (Path(platformdirs.user_cache_dir("gym_batchnav"), "kernels"), PACKAGE / "__pycache__"):
        if is_writable(path):
            return path
    return None


def _remove_old(base: Path, module: str) -> None:
    """Remove the folders of a module's other sources except the most recently used ones."""
    form = re.compile(rf"{re.escape(module)}-[0-9a-f]{{16}}")
    found = []
    with suppress(OSError):
        for path in base.iterdir():
            if form.fullmatch(path.name):
                found.append((path.stat().st_mtime, path))
    for used, path in sorted(found, reverse=True)[KEPT_FOLDERS:]:
        if used < time.time() - _IN_USE:
            shutil.rmtree(path, ignore_errors=True)
