"""The main memory and the processors that a machine, a container or a job leaves to this process."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

MEMORY = "GYM_BATCHNAV_MEMORY"
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes of main memory that this process may still allocate; None if unknown or unlimited.

    The environment variable ``GYM_BATCHNAV_MEMORY`` overrides it: a number of bytes, or ``off`` for no limit.
    Otherwise, on Linux, it is MemAvailable of proc(5), or what a control group around the process leaves if that is
    less.

    Raises:
        ValueError: The variable is neither.
    """
    given = os.environ.get(MEMORY)
    if given is not None:
        if given != "off" and not given.isdecimal():
            raise ValueError(f"{MEMORY}={given!r}: set a number of bytes, or 'off' for no limit")
        return None if given == "off" else int(given)
    found = [1024 * value for name, value in _numbers(_PROC / "meminfo").items() if name == "MemAvailable:"]
    for group in _groups("memory"):
        for limit, usage, cache in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            most, used = _words(group / limit), _words(group / usage)
            if most and used and most[0] != "max":
                stat = _numbers(group / "memory.stat")
                files = stat.get(f"{cache}inactive_file", 0) + stat.get(f"{cache}active_file", 0)  # can be freed
                found.append(int(most[0]) - int(used[0]) + files)
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found)) if found else None


def processor_quota() -> int | None:
    """Return the number of processors that control groups allow this process, rounded up; None for no limit."""
    found = []
    for group in _groups("cpu"):
        quota = _words(group / "cpu.max") or (_words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us"))
        if len(quota) == 2 and quota[0] not in ("max", "-1"):
            found.append(math.ceil(int(quota[0]) / int(quota[1])))
    return max(1, min(found)) if found else None


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups of this process and of those around them, see cgroups(7)."""
    for line in _read(_PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _GROUPS / controller if controllers else _GROUPS
        group = root / path.strip("/")
        # A container may know the path outside; its root then holds its own limits.
        yield from (one for one in (group, *group.parents) if one.is_relative_to(root))


def _numbers(path: Path) -> dict[str, int]:
    """Return the numbers of a file of lines with a name and a number."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _words(path: Path) -> list[str]:
    """Return the words of a file, none if it cannot be read."""
    return _read(path).split()


def _read(path: Path) -> str:
    """Return the text of a file, empty if it cannot be read."""
    try:
        return path.read_text("ascii")
    except (OSError, ValueError):
        return ""
