"""The kernels that programs need, compiled ahead."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import gym_batchnav

PACKAGE = Path(gym_batchnav.__file__).parent
MOST_IN_DEMO = 60
# The branches of the first few are compiled for what is drawn; the next two also take a flag that is a constant, and
# the keys of a heap have three types.
COMPILED_TWICE = {
    *("draw", "_draw_band", "_add_bodies", "_start", "_aim", "find_texels", "interleave"),
    *("_is_diagonal", "try_step", "rise", "pop"),
}
# The first measures, and the second belongs to the other renderer.
NOT_AHEAD = {"_calibration_loop", "cull"}
ENTRY = re.compile(r".+\.(\w+)-\d+\.py\d+.*")


def run(tmp_path: Path, *arguments: str) -> None:
    """Run a command with empty caches."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba"), "GYM_BATCHNAV_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "gym_batchnav", *arguments]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, cwd=tmp_path)


def compiled(folder: Path, suffix: str) -> Counter[tuple[str, str]]:
    """The modules and names of the kernels in a cache, and how many files with a suffix each of them has."""
    files = [(path.parent, ENTRY.fullmatch(path.name)) for path in folder.rglob(f"*.{suffix}")]
    return Counter((parent.name.rpartition("-")[0], found[1]) for parent, found in files if found)


def all_kernels() -> set[str]:
    """The names of all kernels of the package that are not compiled within their callers."""
    return {
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(re.match(r"(njit|cfunc)\b(?!.*SMALL)", ast.unparse(line)) for line in node.decorator_list)
    }


@pytest.mark.slow
def test_warmup_compiles_all_kernels_and_each_for_one_signature(tmp_path):
    """A literal or a 32-bit integer among the arguments costs every program seconds at its first start."""
    run(tmp_path, "warmup", "--renderer", "embree")
    assert all_kernels() - {name for _, name in compiled(tmp_path / "numba", "nbi")} <= NOT_AHEAD
    signatures = compiled(tmp_path / "numba", "nbc")
    assert {name for (_, name), count in signatures.items() if count > 1} <= COMPILED_TWICE


@pytest.mark.slow
def test_the_demo_compiles_few_kernels(tmp_path):
    """They are most of what a user waits for at first; each takes a tenth of a second or more."""
    pytest.importorskip("embreex")
    run(tmp_path, "demo", "--seconds", "0.1", "--num-envs", "8", "--renderer", "embree")
    assert sum(compiled(tmp_path / "numba", "nbi").values()) <= MOST_IN_DEMO
