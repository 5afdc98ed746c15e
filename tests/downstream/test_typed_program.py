"""A typed program of a user passes mypy --strict against the package, and runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gym_batchnav
from gym_batchnav.library.sources import shipped_scenes

PROGRAM = Path(__file__).with_name("program.py")
PACKAGE = Path(gym_batchnav.__file__).parent
WRONG = """
from gym_batchnav import BatchNavEnv, Camera, load_scene

BatchNavEnv("three")
Camera(16, 16, hfov="wide")
load_scene(3)
"""


# What stands behind the package and not in its signatures: three of four modules that mypy would read.
UNREAD = "IPython matplotlib moderngl numba PIL rich torch trimesh typer viser warp websockets".split()
CONFIG = "[mypy]\nstrict = True\nfollow_imports = silent\n" + "".join(
    f"[mypy-{name}.*]\nfollow_imports = skip\nignore_missing_imports = True\n" for name in UNREAD
)

pytestmark = pytest.mark.slow  # mypy reads the package anew


def errors(folder, *paths):
    """Check files as in a project of its own, in which the package is a library, whose own errors do not count."""
    (folder / "mypy.ini").write_text(CONFIG)
    command = [sys.executable, "-m", "mypy", "--config-file=mypy.ini", "--no-error-summary"]
    # mypy finds an installed package by itself, and refuses its folder in MYPYPATH.
    found = {} if PACKAGE.parent.name == "site-packages" else {"MYPYPATH": str(PACKAGE.parent)}
    environment = {**os.environ, **found}
    done = subprocess.run([*command, *paths], cwd=folder, env=environment, capture_output=True, text=True)
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if "note:" not in line]


def test_the_program_runs(tmp_path):
    scene = shipped_scenes()["apartment_0"]
    done = subprocess.run([sys.executable, PROGRAM, scene, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "map.png").is_file()
    assert "(4, 16, 16, 1)" in done.stdout and "'depth': (4, 2, 8, 8, 1)" in done.stdout


def test_the_program_passes_strict_checks_of_types(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text(WRONG)
    found = errors(tmp_path, PROGRAM, tmp_path / "wrong.py")
    assert [line.split(":")[:2] for line in found] == [["wrong.py", line] for line in ("4", "5", "6")]
