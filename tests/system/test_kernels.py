"""Machine code on disk is found again only with the sources that it was made of."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gym_batchnav.system import code, kernels

# A kernel of one file that depends on how many fields a row of another file has, as those of the navmesh do.
PROBE = """
from numba import njit
import gym_batchnav.system.jit
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
def test_a_field_that_is_added_in_another_file_is_not_served_stale_machine_code(tmp_path, copy):
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


def test_kernels_lie_in_the_folder_that_the_user_has_set_and_the_users_own_do_not_move(tmp_path):
    (tmp_path / "own.py").write_text("from numba import njit\n\n@njit(cache=True)\ndef one():\n    return 1\n")
    program = (
        "import gym_batchnav, own, os, numba; from gym_batchnav.system.calibration import calibrate; calibrate();"
        "own.one(); print(os.environ['NUMBA_CACHE_DIR'], own.one.stats.cache_path)"
    )
    chosen = tmp_path / "numba"
    folder, own = run(program, tmp_path, chosen)
    assert Path(folder) == chosen and not Path(own).name.startswith("gym_batchnav") and Path(own).parent == chosen
    ours = [path for path in chosen.iterdir() if path.name.startswith("gym_batchnav.system.calibration-")]
    assert len(ours) == 1 and len(list(ours[0].glob("*.nbi"))) == 1


@pytest.fixture
def digests(copy, monkeypatch):
    """A function that returns digests of the copy, as found by a process that began at some time."""
    monkeypatch.setattr(kernels, "PACKAGE", copy)
    monkeypatch.setattr(code, "PACKAGE", copy)
    for file in copy.rglob("*.py"):
        os.utime(file, (0, 0))  # a checkout may have written it a moment ago

    def forget():
        for cached in (code._read_by, kernels.module_digest, kernels.kernels_digest):
            cached.cache_clear()

    def digests(began=float("inf")):
        forget()
        monkeypatch.setattr(kernels, "_BEGAN", began)
        modules = ("navmesh/kernels/motion.py", "noise/rgb.py")
        return kernels.kernels_digest(), *(kernels.module_digest(copy / module) for module in modules)

    yield digests
    forget()


def test_a_change_of_a_module_that_no_kernel_reads_compiles_nothing(copy, digests):
    before = digests()
    for name in ("homes/textures.py", "env/batch.py", "cli/demo.py", "scene/formats/gltf.py"):
        (copy / name).write_text((copy / name).read_text() + "\n# changed\n")
    assert digests() == before
    (copy / "navmesh/kernels/ground.py").write_text((copy / "navmesh/kernels/ground.py").read_text() + "\n# changed\n")
    after = digests()
    assert after[0] != before[0] and after[1] != before[1] and after[2] == before[2]


def test_machine_code_of_sources_that_change_during_a_process_is_not_found_again(copy, digests):
    began = time.time() - 60
    as_it_is = digests()
    for changed, seconds in ((False, began - 1), (True, began + 1)):
        os.utime(copy / "navmesh/kernels/ground.py", (seconds, seconds))
        found, again = digests(began), digests(began)
        assert (found != as_it_is) == (again != as_it_is) == (found[1] != again[1]) == changed
    os.utime(copy / "navmesh/kernels/ground.py", (2**32, 2**32))  # of a clock that is ahead
    assert digests(began) == as_it_is


def test_processes_that_store_signatures_at_once_do_not_exchange_their_machine_code(tmp_path, monkeypatch):
    """Both read the index before either writes it, and the first to write it is the last to write its machine code."""
    folder = tmp_path / "gym_batchnav.a.b-0123456789abcdef"
    folder.mkdir()
    first, second, found = (kernels.KernelFiles(str(folder), "kernel-1.py311", "stamp") for _ in range(3))
    write = first._save_data

    def write_last(name, data):
        with monkeypatch.context() as patch:
            patch.setattr(second, "_load_index", dict)
            second.save("integers", "of integers")
        write(name, data)

    monkeypatch.setattr(first, "_save_data", write_last)
    first.save("floats", "of floats")
    assert found.load("integers") == "of integers" and found.load("floats") in (None, "of floats")
    assert kernels.KernelFiles(str(tmp_path), "mine", "stamp")._data_name(1) == "mine.1.nbc"  # of other packages


def test_few_folders_of_other_sources_are_kept(tmp_path):
    now = time.time()
    for index in range(7):
        folder = tmp_path / f"gym_batchnav.a.b-{index:016x}"
        folder.mkdir()
        os.utime(folder, (now - 10**6 - index, now - 10**6 - index))
    for other in ("mine", "gym_batchnav.a.c-0123456789abcdef"):
        (tmp_path / other).mkdir()
        os.utime(tmp_path / other, (0, 0))
    kernels._remove_old(tmp_path, "gym_batchnav.a.b")
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == sorted(
        [*(f"gym_batchnav.a.b-{index:016x}" for index in range(kernels.KEPT_FOLDERS)), "mine",
         "gym_batchnav.a.c-0123456789abcdef"]
    )  # fmt: skip
