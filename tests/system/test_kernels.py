"""Machine code on disk is found again only with the sources that it was made of."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gym_batchnav
from gym_batchnav.system import kernels

PACKAGE = Path(gym_batchnav.__file__).parent
# A kernel of one file that depends on how many fields a row of another file has, as those of the navmesh do.
PROBE = """
from numba import njit
from gym_batchnav.{module} import {row}

FIELDS = len({row}._fields)

@njit(cache=True)
def fields(one):
    return FIELDS * one

print(fields(1), FIELDS, sum(fields.stats.cache_hits.values()))
"""


def run(program: str, home: Path, cache: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(home), "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_a_field_that_is_added_in_another_file_is_not_served_stale_machine_code(tmp_path):
    copy = tmp_path / "gym_batchnav"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    file, declaration = next(
        (path, found)
        for path in sorted((copy / "navmesh" / "kernels").glob("*.py"))
        if (
            found := re.search(
                r"^class (Ground)\(NamedTuple\):\n(?:    \"\"\"(?:.|\n)*?\"\"\"\n\n?)?", path.read_text(), re.M
            )
        )
    )
    module = ".".join(file.relative_to(copy).with_suffix("").parts)
    (copy / "navmesh" / "probe.py").write_text(PROBE.format(module=module, row=declaration[1]))
    program = "import gym_batchnav.navmesh.probe"
    compiled, count, hits = run(program, tmp_path, tmp_path / "numba")
    assert compiled == count and hits == "0"
    assert run(program, tmp_path, tmp_path / "numba") == [count, count, "1"]
    text = file.read_text()
    added = "    added: Annotated[np.ndarray, _array(np.int32, 'P')]\n"
    file.write_text(text[: declaration.end()] + added + text[declaration.end() :])
    compiled, more, hits = run(program, tmp_path, tmp_path / "numba")
    assert int(more) == int(count) + 1 and compiled == more and hits == "0"


def test_the_folder_lies_below_the_one_that_the_user_has_set(tmp_path, monkeypatch):
    for _ in range(2):  # a child process inherits it
        monkeypatch.setenv("NUMBA_CACHE_DIR", os.environ["NUMBA_CACHE_DIR"] if _ else str(tmp_path))
        kernels.use_versioned_kernel_cache()
        folder = Path(os.environ["NUMBA_CACHE_DIR"])
        assert folder.parent == tmp_path and folder.name.startswith("gym_batchnav-")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "gym_batchnav-0123456789abcdef"))  # of other sources
    kernels.use_versioned_kernel_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    kernels.use_versioned_kernel_cache()
    assert Path(os.environ["NUMBA_CACHE_DIR"]).name == folder.name
    monkeypatch.undo()
    kernels.use_versioned_kernel_cache()


def test_few_folders_of_other_sources_are_kept(tmp_path, monkeypatch):
    now = time.time()
    for index in range(7):
        folder = tmp_path / f"gym_batchnav-{index:016x}"
        folder.mkdir()
        os.utime(folder, (now - 10**6 - index, now - 10**6 - index))
    (tmp_path / "mine").mkdir()
    os.utime(tmp_path / "mine", (0, 0))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernels.use_versioned_kernel_cache()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == [*(f"gym_batchnav-{index:016x}" for index in range(kernels.KEPT_FOLDERS)), "mine"]
    monkeypatch.undo()
    kernels.use_versioned_kernel_cache()
