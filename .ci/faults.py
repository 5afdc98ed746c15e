"""Plant faults in a copy of the package, folder by folder, and see which of them the tests notice.

    python .ci/faults.py --folders noise,actions --count 10 --seed 0

Each fault is one small change: a comparison or a condition reversed, + for - or * for /, another constant, a ``return``
without its value. It counts as noticed if the tests of the folder, tests/FOLDER, fail or take three times as long.
The same seed chooses the same faults in the same sources. Read each fault that is not noticed: some change nothing that
a user could see. Run it in an environment in which the tests pass.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "gym_batchnav"
NO_TESTS = 5  # pytest's exit status
OPERATORS = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Fault(NamedTuple):
    """A piece of a file, from ``start`` to ``end`` (bytes), and what replaces it."""

    file: Path
    line: int
    start: int
    end: int
    text: str


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what could replace a node and is wrong."""
    match node:
        case ast.Compare(left, [operator], comparators) if type(operator) in OPERATORS:
            yield ast.Compare(left, [OPERATORS[type(operator)]()], comparators)
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS and not isinstance(left, ast.Constant):
            yield ast.BinOp(left, OPERATORS[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(OPERATORS[type(operator)](), values)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(value) if type(value) in (bool, int, float):
            yield ast.Constant(not value if isinstance(value, bool) else value + 1)


def faults_in(file: Path) -> Iterator[Fault]:
    """Yield every fault that can be planted inside the functions of a file."""
    source = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    nodes = {id(node): node for one in functions for statement in one.body for node in ast.walk(statement)}
    for text in [node for node in nodes.values() if isinstance(node, ast.JoinedStr)]:
        for inside in ast.walk(text):  # whose places in the file Python 3.11 does not know
            nodes.pop(id(inside), None)
    for node in nodes.values():
        if isinstance(node, ast.Return | ast.If) and (
            inner := node.value if isinstance(node, ast.Return) else node.test
        ):
            wrong = "None" if isinstance(node, ast.Return) else f"(not ({ast.unparse(inner)}))"
            found = [(inner, wrong)]
        else:
            found = [(node, f"({ast.unparse(other)})") for other in replacements(node)]
        for place, text in found:
            begin = starts[place.lineno - 1] + place.col_offset
            yield Fault(file, place.lineno, begin, starts[place.end_lineno - 1] + place.end_col_offset, text)


def chosen(folder: str, count: int, seed: int) -> list[Fault]:
    """Return ``count`` faults of a folder, at most one per line."""
    found = [fault for file in sorted((ROOT / PACKAGE / folder).rglob("*.py")) for fault in faults_in(file)]
    random.Random(f"{seed} {folder}").shuffle(found)
    first = {(fault.file, fault.line): fault for fault in reversed(found)}
    return [fault for fault in found if first[fault.file, fault.line] is fault][:count]


def is_noticed(copy: Path, folder: str, limit: float) -> bool:
    """Return whether the tests of a folder fail in a copy, or take more than ``limit`` seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", f"tests/{folder}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(copy), str(copy / "tests")))}
    environment.setdefault("GYM_BATCHNAV_TEST_DATA", str(ROOT.parent / "shared"))
    try:
        status = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return True
    if status == NO_TESTS:
        sys.exit(f"tests/{folder} has no tests: choose other folders with --folders")
    return status != 0


def main() -> None:
    """Parse the arguments, plant the faults one by one and print a table."""
    folders = sorted(path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", default=",".join(folders), help="folders of the package, separated by commas")
    parser.add_argument("--count", type=int, default=10, help="faults per folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wanted = options.folders.split(",")
    if unknown := sorted(set(wanted) - set(folders)):
        parser.error(f"--folders: {', '.join(unknown)} not found; available: {', '.join(folders)}")
    table = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        kept = shutil.ignore_patterns("__pycache__", ".*", "out", "site", "runs")
        shutil.copytree(ROOT, copy, ignore=kept, dirs_exist_ok=True)
        for folder in wanted:
            noticed = 0
            planted = chosen(folder, options.count, options.seed)
            started = time.monotonic()
            if is_noticed(copy, folder, 3600.0):
                sys.exit(f"tests/{folder} fails without a fault: repair it first")
            limit = 60 + 3 * (time.monotonic() - started)
            for fault in planted:
                name = fault.file.relative_to(ROOT)
                source = fault.file.read_bytes()
                (copy / name).write_bytes(source[: fault.start] + fault.text.encode() + source[fault.end :])
                started = time.monotonic()
                found = is_noticed(copy, folder, limit)
                (copy / name).write_bytes(source)
                noticed += found
                before = source[fault.start : fault.end].decode()
                words = f"{name}:{fault.line}: {' '.join(before.split())} -> {' '.join(fault.text.split())}"
                seconds = time.monotonic() - started
                print(f"{'noticed' if found else 'NOT NOTICED':12} {seconds:4.0f} s  {words}", flush=True)
            table.append(f"| {folder} | {noticed} of {len(planted)} |")
    print("\n| folder | noticed |", "|---|---|", *table, sep="\n")


if __name__ == "__main__":
    main()
