"""The order of the floors, and who may import what, read from the import statements."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gym_batchnav

PACKAGE = Path(gym_batchnav.__file__).parent
# Each entry may import those before it, and itself.
FLOORS = [
    "geometry", "color", "process", "progress", "storage", "navmesh", "scene", "render", "task", "cameras", "simulator",
    "arguments", "env", "adapters", "viz", "bench", "cli",
]  # fmt: skip
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
ONLY = {
    "moderngl": "render/opengl/",
    "trimesh": "scene/read_trimesh.py",
    "embreex": "render/embree.py",
    "torch": "train/",
    "stable_baselines3": "adapters/",
}


def imports_of(module: str) -> list[str]:
    """Every module that a file imports, anywhere in it."""
    tree = ast.parse((PACKAGE / module).read_text())
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def floor_of(name: str) -> str:
    return name.split("/")[0].split(".")[0]


@pytest.mark.parametrize("module", [module for module in MODULES if module != "__init__.py"])
def test_no_floor_uses_one_above(module):
    own = FLOORS.index(floor_of(module))
    for name in imports_of(module):
        if name.startswith("gym_batchnav."):
            used = floor_of(name.removeprefix("gym_batchnav."))
            assert used in FLOORS[: own + 1], f"{module} imports {name}"


@pytest.mark.parametrize("module", MODULES)
def test_libraries_stay_behind_their_doors(module):
    for name in imports_of(module):
        door = ONLY.get(name.split(".")[0])
        assert door is None or module.startswith(door), f"{module} imports {name}"


def test_import_is_fast_and_light():
    program = (
        "import time, sys; start = time.perf_counter(); import gymnasium; base = time.perf_counter();"
        "import gym_batchnav; end = time.perf_counter();"
        "heavy = ('numba', 'moderngl', 'trimesh', 'embreex', 'torch', 'PIL');"
        "print(end - start, *[module for module in heavy if module in sys.modules])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    seconds, *heavy = min((run.stdout.split() for run in runs), key=lambda words: float(words[0]))
    assert not heavy
    assert float(seconds) < 1.0
