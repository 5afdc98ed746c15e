"""Digests of code: they follow real imports, and a change of a source that matters changes them."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import gym_batchnav
from gym_batchnav.system import code
from gym_batchnav.system.code import code_digest, imported_by

PACKAGE = Path(gym_batchnav.__file__).parent
ROOTS = ["scene/load.py", "scene/habitat/dataset.py", "library/packing.py", "homes/__init__.py", "navmesh/mesh.py",
         "navmesh/build/__init__.py", "episodes/sampling.py", "env/batch.py"]  # fmt: skip


def for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def module_files(name: str, item: str) -> list[Path]:
    """The file of the package that ``from name import item`` reads: a module, or the one that defines the item."""
    top, *parts = name.split(".")
    if top != "gym_batchnav" or parts[:1] == ["viz"]:
        return []
    path = PACKAGE.joinpath(*parts)
    candidates = ((path / item).with_suffix(".py"), path / item / "__init__.py", path.with_suffix(".py"))
    return [next((one for one in candidates if one.is_file()), path / "__init__.py")]


@cache
def imported(file: Path) -> set[Path]:
    """The files of the package that one imports by ``from``, anywhere, from its syntax tree."""
    files = set()
    waiting = [ast.parse(file.read_text())]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.ImportFrom):
                files |= {found for alias in node.names for found in module_files(str(node.module), alias.name)}
            if not for_types(node):
                waiting.append(node)
    return files


def test_the_modules_found_are_those_of_the_syntax_tree():
    for root in ROOTS:
        found = set()
        waiting = [PACKAGE / root]
        while waiting:
            file = waiting.pop()
            if file not in found:
                found.add(file)
                waiting += imported(file)
        assert imported_by([PACKAGE / root], late=True) == sorted(found) and len(found) > 5, root


def test_a_change_of_an_imported_module_changes_the_digest(copy, monkeypatch):
    monkeypatch.setattr(code, "PACKAGE", copy)

    def digest() -> str:
        code._read_by.cache_clear()
        return code.digest_of(imported_by([copy / "scene/load.py"], late=True), ["numpy"])

    before = digest()
    (copy / "library" / "rotation.py").write_text("# nothing that loading depends on\n")
    assert digest() == before
    change = copy / "scene" / "color.py"
    change.write_text(change.read_text() + "\nNEW = 1\n")
    assert digest() != before
    code._read_by.cache_clear()


def test_versions_of_other_packages_count_and_that_of_the_package_where_it_has_no_sources(monkeypatch):
    def digests() -> tuple[str, str]:
        return code.digest_of([], ["numpy", "no-such-package"]), code_digest.__wrapped__("scene/load.py")

    with_sources = digests()
    monkeypatch.setattr(code, "_HAS_SOURCES", False)
    before = digests()
    monkeypatch.setattr(code, "installed_version", lambda name: "0.0.1")
    after = digests()
    assert before[0] == with_sources[0] != after[0] and len({with_sources[1], before[1], after[1]}) == 3


def test_a_root_that_was_renamed_is_an_error_and_not_an_empty_digest():
    with pytest.raises(FileNotFoundError, match="no_such_module"):
        code_digest("scene/no_such_module.py")


def test_all_that_kernels_can_read_keys_their_machine_code():
    """Modules that compile kernels, and the modules of this package whose names their kernels use."""
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text()
        if not re.search(r"^\s*@(numba\.)?(njit|jit|cfunc)\b", text, re.MULTILINE):
            continue
        tree = ast.parse(text)
        kernels = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) or "cfunc" in ast.unparse(one)
                                                         for one in node.decorator_list)
        ]  # fmt: skip
        used = {name.id for kernel in kernels for name in ast.walk(kernel) if isinstance(name, ast.Name)}
        keyed = imported_by([file])
        assert file in keyed
        for node in ast.walk(tree):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if (alias.asname or alias.name) in used:
                    needed = module_files(str(node.module), alias.name)
                    assert set(needed) <= set(keyed), f"{file}: import {alias.name} at the top of the module"
