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


pytestmark = pytest.mark.slow  # mypy reads the package anew


def strict(path, folder):
    """Check a file as in a project of its own, in which the package is a library, whose own errors do not count."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
        "--no-error-summary",
    ]
    # mypy finds an installed package by itself, and refuses its folder in MYPYPATH.
    found = {} if PACKAGE.parent.name == "site-packages" else {"MYPYPATH": str(PACKAGE.parent)}
    return subprocess.run(
        [*command, f"--cache-dir={folder / 'cache'}", path],
        cwd=folder, env={**os.environ, **found}, capture_output=True, text=True,
    )  # fmt: skip


def test_the_program_runs(tmp_path):
    scene = shipped_scenes()["apartment_0"]
    done = subprocess.run([sys.executable, PROGRAM, scene, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "map.png").is_file()
    assert "(4, 16, 16, 1)" in done.stdout and "'depth': (4, 2, 8, 8, 1)" in done.stdout


def test_the_program_passes_strict_checks_of_types(tmp_path):
    pytest.importorskip("mypy")
    done = strict(PROGRAM, tmp_path)
    assert done.stdout + done.stderr == ""
    (tmp_path / "wrong.py").write_text(WRONG)
    found = strict(tmp_path / "wrong.py", tmp_path).stdout.splitlines()
    assert [line.split(":")[1] for line in found if "error:" in line] == ["4", "5", "6"]
