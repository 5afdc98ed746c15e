"""Check which kernels have been compiled in NUMBA_CACHE_DIR.

    python .ci/kernels.py demo     # after the demo, in an empty folder: few
    python .ci/kernels.py warmup   # runs warmup: all, and each for one signature

Each kernel takes a tenth of a second or more, which a user waits for at first. A literal or a 32-bit integer among the
arguments makes a second signature.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import gym_batchnav

PACKAGE = Path(gym_batchnav.__file__).parent
MOST_IN_DEMO = 60
# The branches of the first few are compiled for what is drawn; the next two also take a flag that is a constant, and
# the keys of a heap have three types.
COMPILED_TWICE = {
    *("draw", "_draw_band", "_add_bodies", "_start", "_aim", "find_texels", "interleave"),
    *("_is_diagonal", "try_step", "rise", "pop"),
}
NOT_AHEAD = {"_calibration_loop", "code_colors"}  # one measures, one is for training
ENTRY = re.compile(r".+\.(\w+)-\d+\.py\d+.*")


def compiled() -> dict[tuple[str, str], int]:
    """Return the modules and names of the kernels in the cache, and for how many signatures each was compiled.

    Two processes may compile a kernel at once and leave two files; the index lists one of them.
    """
    found = {}
    for path in Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbi"):
        if entry := ENTRY.fullmatch(path.name):
            with path.open("rb") as file:
                pickle.load(file)  # Numba's version
                found[path.parent.name.rpartition("-")[0], entry[1]] = len(pickle.load(file)[1])
    return found


def all_kernels() -> set[str]:
    """Return the names of all kernels of the package that are not compiled within their callers."""
    return {
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(re.match(r"(njit|cfunc)\b(?!.*SMALL)", ast.unparse(line)) for line in node.decorator_list)
    }


def warmup() -> int:
    """Run warmup; return how many kernels it compiled."""
    command = [sys.executable, "-m", "gym_batchnav", "warmup", "--renderer", "embree", "--json"]
    return int(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["compiled"])


def main() -> None:
    """Exit with what is wrong, if anything is."""
    (after,) = sys.argv[1:]
    if after == "demo":
        number = len(compiled())
        print(f"the demo compiled {number} kernels (at most {MOST_IN_DEMO})")
        sys.exit(number > MOST_IN_DEMO and "the demo compiles too many kernels")
    warmup()
    if missing := all_kernels() - {name for _, name in compiled()} - NOT_AHEAD:
        sys.exit(f"warmup does not compile {', '.join(sorted(missing))}")
    if twice := {name for (_, name), count in compiled().items() if count > 1} - COMPILED_TWICE:
        sys.exit(f"warmup compiles for several signatures: {', '.join(sorted(twice))}")
    if again := warmup():
        sys.exit(f"warmup compiles {again} kernels that it has compiled before")


if __name__ == "__main__":
    main()
