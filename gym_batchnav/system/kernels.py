"""The folder in which Numba stores the machine code of this package's kernels.

To decide whether machine code is up to date, Numba checks only the file of the kernel. A kernel also contains the code
of the kernels that it calls and the constants that it imports, so stale machine code could read wrong addresses. The
folder is therefore named after a digest of all sources that kernels can depend on. Numba itself keys its entries by
processor.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

import platformdirs

from gym_batchnav.system.code import PACKAGE, folder_digest
from gym_batchnav.system.storage import is_writable

# The sources of kernels, and those from which they import constants and layouts.
KERNEL_SOURCES = (
    "navmesh", "flight", "mapping", "render", "noise", "scene", "homes", "episodes", "state.py", "geometry.py",
    "env/flat.py", "bench.py", "system/compilation.py", "system/jit.py", "system/parallel.py",
)  # fmt: skip
KEPT_FOLDERS = 4  # most recently used folders of other sources, for checkouts that switch between branches
_PREFIX = "gym_batchnav-"
_FOLDER = re.compile(rf"{_PREFIX}[0-9a-f]{{16}}")
_IN_USE = 86400.0  # seconds after its last use in which another process may still need a folder


def use_versioned_kernel_cache() -> None:
    """Make Numba store machine code in a folder named after the sources, in NUMBA_CACHE_DIR or the user's cache.

    The folder is set as the environment variable NUMBA_CACHE_DIR, which Numba reads when it is imported and which child
    processes inherit. Numba creates the folder when it first writes to it. Idempotent.
    """
    base = _base()
    if base is None:
        return
    folder = base / f"{_PREFIX}{_key()}"
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    config = sys.modules.get("numba.core.config")
    if config is not None:  # Numba was imported before this package
        vars(config)["CACHE_DIR"] = str(folder)
    if folder.is_dir():
        with suppress(OSError):
            os.utime(folder)
    elif base.is_dir():
        _remove_old(base)


def _base() -> Path | None:
    """Return the folder of all versions, or None if no folder is writable, so that Numba has to find one."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        path = Path(given)
        return path.parent if _FOLDER.fullmatch(path.name) else path  # a parent process has set it
    for path in (Path(platformdirs.user_cache_dir("gym_batchnav"), "kernels"), PACKAGE / "__pycache__"):
        if is_writable(path):
            return path
    return None


def _key() -> str:
    """Return a digest of 16 hexadecimal digits of the sources, the compiler's versions and the machine."""
    sources = folder_digest(*KERNEL_SOURCES, packages=("numba", "llvmlite", "numpy"))
    machine = f"{sys.implementation.cache_tag} {platform.python_version()} {platform.machine()} {platform.system()}"
    return hashlib.sha256(f"{sources} {machine}".encode()).hexdigest()[:16]


def _remove_old(base: Path) -> None:
    """Remove the folders of other sources except the most recently used ones."""
    found = []
    with suppress(OSError):
        for path in base.iterdir():
            if _FOLDER.fullmatch(path.name):
                found.append((path.stat().st_mtime, path))
    for used, path in sorted(found, reverse=True)[KEPT_FOLDERS:]:
        if used < time.time() - _IN_USE:
            shutil.rmtree(path, ignore_errors=True)
