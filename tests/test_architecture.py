"""Floors, doors and circles, read from the sources."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gym_batchnav

PACKAGE = Path(gym_batchnav.__file__).parent
# Each entry may import those before it, and itself. What prepares scenes for agents knows their episodes, so it stands
# higher than the rest of its folder.
FLOORS = [
    "state", "system", "lenses", "geometry", "navmesh", "scene", "homes", "library", "render", "noise",
    "episodes", "actions", "task", "mapping", "library/shipped.py", "library/prepare.py",
    "library/workers.py", "library/warmup.py", "worlds", "protocols", "env", "flight", "evaluation", "stream",
    "adapters",
    "viz", "train", "collect", "testing", "bench", "tuning", "datasets", "doctor", "cluster", "cli", "__main__",
]  # fmt: skip
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
ADAPTED = ("stable_baselines3", "torchrl", "skrl", "pufferlib", "tianshou", "rl_games", "sample_factory", "pettingzoo")
ONLY = {
    "moderngl": "render/opengl/",
    "warp": "render/warp/",
    "trimesh": ("scene/formats/", "worlds/shapes.py"),
    "embreex": "render/embree/",
    **dict.fromkeys(("DracoPy", "meshopt", "opengl_basisu", "mujoco"), "scene/formats/"),
    "torch": ("train/", "render/warp/", "env/functional.py", "stream/dataset.py", "adapters/"),
    "imageio": "viz/",
    **dict.fromkeys(("viser", "websockets"), "viz/window/"),
    "rerun": "viz/rerun.py",
    "safetensors": "train/",
    "tensorboard": "train/",
    **dict.fromkeys(("zarr", "lerobot", "minari"), "collect/"),
    "sklearn": "tuning.py",
    **dict.fromkeys(ADAPTED, "adapters/"),
    "ray": ("adapters/", "cluster/"),
}


def imports_of(module: str, lazy: bool = True) -> tuple[str, ...]:
    """Modules that a file imports by any means; without ``lazy`` only those imported when it is."""
    return imports_in((PACKAGE / module).read_text(), lazy)


@cache
def tree_of(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def imports_in(source: str, lazy: bool = True) -> tuple[str, ...]:
    tree = tree_of(source)
    names = []
    computed = False
    for node in ast.walk(tree) if lazy else eager_nodes(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__", "OptionalPackage"):
            given = node.args[0] if node.args else None
            names += [given.value] if isinstance(given, ast.Constant) else []
            computed |= not isinstance(given, ast.Constant)
    if computed:  # from some text in the file
        names += [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str]
    return tuple(names)


SHOWS_ITSELF = "_repr_mimebundle_"  # the one method that may import from above, and only viz


def imports_to_show(source: str) -> list[str]:
    """Imports from viz in methods that show their object, by statements alone."""
    if SHOWS_ITSELF not in source:
        return []
    methods = [
        method
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == SHOWS_ITSELF
    ]
    names = [name for method in methods for name in imports_in(ast.unparse(method))]
    return [name for name in names if name.startswith("gym_batchnav.viz.")]


def imports_across_floors(source: str) -> list[str]:
    """Imports of a file, except those that show its objects."""
    names = list(imports_in(source))
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
    """The file of the package that a dotted name, or its longest prefix, names; None for other packages."""
    parts = name.split(".")
    while parts and parts[0] == "gym_batchnav":
        path = "/".join(parts[1:])
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in MODULES:
                return file
        parts.pop()
    return None


def floor_of(module: str) -> str:
    """The floor of a file: its own, or that of its folder."""
    return module if module in FLOORS else module.split("/")[0].removesuffix(".py")


def test_no_floor_uses_one_above():
    for module in set(MODULES) - {"__init__.py"}:
        allowed = FLOORS[: FLOORS.index(floor_of(module)) + 1]
        for name in imports_across_floors((PACKAGE / module).read_text()):
            file = file_of(name) if ":" not in name else None  # the table of ids imports when an id is used
            assert file in (None, "__init__.py") or floor_of(file) in allowed, f"{module} imports {name}"


def test_libraries_stay_behind_their_doors():
    for module in MODULES:
        for name in imports_of(module):
            door = ONLY.get(name.split(".")[0])
            assert door is None or module.startswith(door), f"{module} imports {name}"


def test_nothing_is_imported_in_circles():
    """Importing any module first works: at module level the imports of the whole package have an order.

    Importing ``a.b`` also imports ``a``, so a module uses the ``__init__`` of the packages on the way, except its own.
    """
    uses = {module: files_used(module) - {module} for module in MODULES}
    graphlib.TopologicalSorter(uses).prepare()  # raises a CycleError that names the modules


def files_used(module: str) -> set[str]:
    """Files that run when a module is imported, one step away."""
    found = set()
    for name in imports_of(module, lazy=False):
        file = file_of(name)
        if file is None:
            continue
        found.add(file)
        folders = file.split("/")[:-1]
        inits = {"/".join([*folders[:depth], "__init__.py"]) for depth in range(1, len(folders) + 1)}
        found |= {one for one in inits if not module.startswith(one.removesuffix("__init__.py"))}
    return found - {"__init__.py"}


def test_the_root_imports_only_the_table_of_ids_before_a_name_is_used():
    assert {file_of(name) for name in imports_of("__init__.py", lazy=False)} <= {None, "env/ids.py"}  # the table


def test_notebooks_have_one_door():
    """Whatever shows itself reaches up to one and the same module."""
    below = [module for module in MODULES if floor_of(module) in FLOORS[: FLOORS.index("viz")]]
    doors = {file_of(name) for module in below for name in imports_to_show((PACKAGE / module).read_text())}
    assert doors == {"viz/notebook.py"}


def test_what_the_package_offers_is_there():
    assert set(gym_batchnav.__all__) == {"__version__", *gym_batchnav._EXPORTS}
    for name, module in gym_batchnav._EXPORTS.items():
        assert getattr(gym_batchnav, name).__module__.startswith(module.rpartition(".")[0]), name
    assert gym_batchnav.Task in gym_batchnav.Explore.__mro__
    with pytest.raises(AttributeError, match="PointNaav"):
        gym_batchnav.PointNaav  # noqa: B018


HEAVY = {"numba", "moderngl", "trimesh", "embreex", "torch", "PIL", "scipy", "matplotlib"}


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("gymnasium, gym_batchnav", {*HEAVY, "typer", "rich"}),
        ("gym_batchnav.cli", {*HEAVY, "viser", "ray"}),
        ("gym_batchnav.render", {"moderngl", "embreex", "torch"}),
    ],
)
def test_importing_is_light_and_dir_lists_every_public_name(modules, heavy):
    """In a fresh process; benchmarks/start.py measures the time."""
    program = f"import sys, {modules}; print(*sys.modules); print(*dir(gym_batchnav))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, public = map(str.split, run.stdout.splitlines())
    assert not heavy & set(loaded)
    assert set(gym_batchnav.__all__) <= set(public)


MAX_LINES = 80  # of the statements of a function: a screen


def test_a_function_fits_a_screen():
    for module in MODULES:
        for node in ast.walk(tree_of((PACKAGE / module).read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
                assert not body or body[-1].end_lineno - body[0].lineno < MAX_LINES, f"{module}: {node.name}"


def is_kernel(function: ast.AST) -> bool:
    return isinstance(function, ast.FunctionDef) and any(
        name in ast.unparse(decorator) for decorator in function.decorator_list for name in ("njit", "cfunc")
    )


def inner_kernels() -> set[str]:
    """Dotted names of the kernels that are compiled without a wrapper for Python."""
    sources = {module: (PACKAGE / module).read_text() for module in MODULES}
    return {
        f"gym_batchnav.{module.removesuffix('.py').replace('/', '.')}.{node.name}"
        for module, source in sources.items()
        if re.search("INNER|SMALL", source)
        for node in tree_of(source).body
        if isinstance(node, ast.FunctionDef)
        and re.search("INNER|SMALL", " ".join(map(ast.unparse, node.decorator_list)))
    }


def python_calls(tree: ast.Module, known: dict[str, str], kernels: set[str]) -> Iterator[str]:
    """Kernels that are called outside kernels; ``known`` maps the names of a file to dotted names."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if is_kernel(node):
            continue
        match node:
            case ast.Call(ast.Name(name)) if known.get(name) in kernels:
                yield known[name]
            case ast.Call(ast.Attribute(ast.Name(owner), name)) if f"{known.get(owner)}.{name}" in kernels:
                yield f"{known[owner]}.{name}"
        waiting += ast.iter_child_nodes(node)


def test_python_calls_no_kernel_without_a_wrapper():
    """The process would crash."""
    inner = inner_kernels()
    assert len(inner) > 50
    calls = re.compile(rf"\b({'|'.join(name.rpartition('.')[2] for name in inner)})\(")
    modules = {name.rpartition(".")[0] for name in inner}
    origins = "|".join(modules | {module.rpartition(".")[0] for module in modules})
    imports = re.compile(rf"^\s*from ({origins}) import", re.MULTILINE)
    tests = Path(__file__).parent
    for path in [*PACKAGE.rglob("*.py"), *tests.rglob("*.py"), *(tests.parent / "benchmarks").rglob("*.py")]:
        text = path.read_text()
        inside = path.is_relative_to(PACKAGE)
        module = ".".join(("gym_batchnav", *path.relative_to(PACKAGE).with_suffix("").parts)) if inside else path.stem
        if not calls.search(text) or not (imports.search(text) or module in modules):
            continue
        tree = tree_of(text)
        known = {node.name: f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        assert not set(python_calls(tree, known, inner)), path
