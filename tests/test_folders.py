"""A feature that enters by an interface lives whole in its folder: without it and its lines the rest works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gym_batchnav"  # the sources, next to the assets
# What else has to go with a folder: pieces of other files.
PIECES = {
    "mapping": {
        "evaluation/named_agents.py": ('"gym_batchnav.mapping.agent:MapAgent"',),
        "evaluation/records.py": ("from gym_batchnav.mapping.sensors import MapPath\n", ", MapPath"),
        "library/warmup.py": (
            "            _MAPPING,\n",
            ", _MAPPING",
            '_MAPPING = Workload("maps of what agents see", "gym_batchnav.mapping.sensors:map_small_image")\n',
        ),
    },
    "flight": {},
}
# Learners whose teacher it is, commands with an option for it, and the lazy table of ids and public names.
OPTIONAL = {
    "mapping": ("train/imitation.py", "train/config.py"),
    "flight": ("__init__.py", "actions/choice.py", "cli/scene/prepare.py", "env/ids.py"),
}
PROGRAM = """
import importlib, pkgutil, sys
import gymnasium, gym_batchnav
env = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=2, scenes="apartment_0", renderer="embree")
env.reset(seed=0)
for _ in range(3):
    observation, *_ = env.step(env.unwrapped.shortest_path_actions())
assert observation["depth"].max() > 0
env.close()
for folder in ("env", "evaluation", "library", "task", "worlds", "noise"):
    package = importlib.import_module(f"gym_batchnav.{folder}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"gym_batchnav.{folder}.{module.name}")
print(gym_batchnav.__file__)
"""


def test_features_are_named_only_in_their_folders_and_in_lines_that_go_with_them():
    for folder, files in PIECES.items():
        naming = re.compile(rf"gym_batchnav\.{folder}\b")
        users = set()
        for path in PACKAGE.rglob("*.py"):
            name = path.relative_to(PACKAGE).as_posix()
            if naming.search(without(files.get(name, ()), path)) and not name.startswith(f"{folder}/"):
                users.add(name)
        assert users == set(OPTIONAL[folder])


def without(pieces, path):
    """The text of a file without some pieces, all of which it has."""
    text = path.read_text("utf-8")
    for piece in pieces:
        assert piece in text, f"{path} no longer has {piece!r}"
        text = text.replace(piece, "''" if piece.startswith('"') else "")
    return text


@pytest.mark.slow
def test_without_their_folders_and_lines_elsewhere_features_are_gone_and_the_rest_works(tmp_path):
    pytest.importorskip("embreex")
    copy = tmp_path / "gym_batchnav"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PACKAGE.parent / "assets", tmp_path / "assets", ignore=shutil.ignore_patterns("*.safetensors"))
    for folder, files in PIECES.items():
        for name, pieces in files.items():
            (copy / name).write_text(without(pieces, copy / name), "utf-8")
        shutil.rmtree(copy / folder)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0 and str(copy) in run.stdout, run.stderr
