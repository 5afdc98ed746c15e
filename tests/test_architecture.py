"""The order of the floors, and who may import what, read from the import statements."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gym_batchnav

PACKAGE = Path(gym_batchnav.__file__).parent
# Each entry may import those before it, and itself.
FLOORS = [
    "state", "geometry", "system", "navmesh", "scene", "homes", "library", "render", "episodes", "task", "preparation",
    "env", "evaluation", "adapters", "viz", "train", "testing", "bench", "cli",
]  # fmt: skip
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
ONLY = {
    "moderngl": "render/opengl/",
    "trimesh": "scene/formats/",
    "embreex": "render/embree/",
    "DracoPy": "scene/formats/",
    "torch": ("train/", "render/opengl/cuda.py", "adapters/"),
    "imageio": "viz/",
    "safetensors": "train/",
    "tensorboard": "train/",
    "cuda": "render/opengl/cuda.py",
    **dict.fromkeys(
        ("stable_baselines3", "ray", "torchrl", "skrl", "pufferlib", "tianshou", "rl_games", "sample_factory"),
        "adapters/",
    ),
}


def imports_of(module: str, lazy: bool = True) -> list[str]:
    """Every module that a file imports, by whatever means; without ``lazy`` only those that importing it imports."""
    return imports_in((PACKAGE / module).read_text(), lazy)


def imports_in(source: str, lazy: bool = True) -> list[str]:
    tree = ast.parse(source)
    names, computed = [], False
    for node in ast.walk(tree) if lazy else eager_nodes(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            given = node.args[0] if node.args else None
            names += [given.value] if isinstance(given, ast.Constant) else []
            computed |= not isinstance(given, ast.Constant)
    if computed:  # from some text in the file
        names += [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str]
    return names


SHOWS_ITSELF = "_repr_mimebundle_"  # the one method that may import from above: from viz, which draws it in notebooks


def imports_to_show(source: str) -> list[str]:
    """What a file imports from viz, by statements in methods that show their object and by no other means."""
    methods = [
        method
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == SHOWS_ITSELF
    ]
    names = [name for method in methods for name in imports_in(ast.unparse(method))]
    return [name for name in names if name.startswith("gym_batchnav.viz.")]


def imports_across_floors(source: str) -> list[str]:
    """What a file imports, but for what it needs to show itself."""
    names = imports_in(source)
    for name in imports_to_show(source):
        names.remove(name)
    return names


def eager_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from eager_nodes(child)


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def file_of(name: str) -> str | None:
    """The file in the package that a dotted name, or the longest part of it, stands for; None for other packages."""
    parts = name.split(".")
    while parts and parts[0] == "gym_batchnav":
        path = "/".join(parts[1:])
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in MODULES:
                return file
        parts.pop()
    return None


def floor_of(name: str) -> str:
    return name.split("/")[0].split(".")[0]


@pytest.mark.parametrize("module", [module for module in MODULES if module != "__init__.py"])
def test_no_floor_uses_one_above(module):
    own = FLOORS.index(floor_of(module))
    for name in imports_across_floors((PACKAGE / module).read_text()):
        if name.startswith("gym_batchnav."):
            used = floor_of(name.removeprefix("gym_batchnav."))
            assert used in FLOORS[: own + 1], f"{module} imports {name}"


VIZ, ENV = "from gym_batchnav.viz.portraits import show", "from gym_batchnav.env.batch_env import BatchNavEnv"


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (f"class C:\n    def _repr_mimebundle_(self):\n        {VIZ}", []),
        (f"class C:\n    def _repr_mimebundle_(self):\n        {ENV}", ["gym_batchnav.env.batch_env.BatchNavEnv"]),
        (f"class C:\n    def __repr__(self):\n        {VIZ}", ["gym_batchnav.viz.portraits.show"]),
        (f"class C:\n    {VIZ}\n    def _repr_mimebundle_(self): ...", ["gym_batchnav.viz.portraits.show"]),
        (f"def _repr_mimebundle_(self):\n    {VIZ}", ["gym_batchnav.viz.portraits.show"]),
        (
            f"{VIZ}\nclass C:\n    def _repr_mimebundle_(self):\n        {VIZ}",
            ["gym_batchnav.viz.portraits.show"],
        ),
    ],
)
def test_only_what_shows_itself_may_look_up_and_only_at_viz(source, left):
    assert imports_across_floors(source) == left


@pytest.mark.parametrize("module", MODULES)
def test_libraries_stay_behind_their_doors(module):
    for name in imports_of(module):
        door = ONLY.get(name.split(".")[0])
        assert door is None or module.startswith(door), f"{module} imports {name}"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch.nn", "torch.nn"),
        ("from torch import nn", "torch.nn"),
        ("import importlib\nimportlib.import_module('torch')", "torch"),
        ("from importlib import import_module\nimport_module('torch', None)", "torch"),
        ("def f():\n    return __import__('torch')", "torch"),
        ("import importlib\nfor name in ('torch', 'jax'): importlib.import_module(name)", "torch"),
    ],
)
def test_imports_are_seen_by_whatever_means(source, name):
    assert name in imports_in(source)


def test_only_what_runs_at_import_counts_as_eager():
    source = "import a\nif TYPE_CHECKING:\n    import b\nclass C:\n    import c\n    def f(self):\n        import d"
    assert imports_in(source, lazy=False) == ["a", "c"]


@pytest.mark.parametrize(
    ("module", "name"), [("render/embree/device.py", "embreex"), ("render/opengl/cuda.py", "torch")]
)
def test_libraries_loaded_by_name_are_seen(module, name):
    assert name in [found.split(".")[0] for found in imports_of(module)]


@pytest.mark.parametrize("package", sorted({module.split("/")[0] for module in MODULES if "/" in module}))
def test_no_package_imports_in_circles(package):
    inside = [module for module in MODULES if module.startswith(f"{package}/")]
    uses = {
        module: {file_of(name) for name in imports_of(module, lazy=False)} & set(inside) - {module} for module in inside
    }
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_what_the_package_offers_is_there():
    assert set(gym_batchnav.__all__) == {"__version__", *gym_batchnav._EXPORTS}
    for name, module in gym_batchnav._EXPORTS.items():
        assert getattr(gym_batchnav, name).__module__.startswith(module.rpartition(".")[0]), name
    assert gym_batchnav.Task in gym_batchnav.Explore.__mro__
    with pytest.raises(AttributeError, match="PointNaav"):
        gym_batchnav.PointNaav  # noqa: B018


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
