"""``gym-batchnav warmup``: compile the kernels ahead of time."""

from __future__ import annotations

import json
import warnings
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table


def warmup(
    renderer: Annotated[str, typer.Option(help="The renderer to compile: auto, warp, opengl or embree.")] = "auto",
    as_list: Annotated[
        bool, typer.Option("--list", help="Also list how many kernels each command needs, and for what.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Compile the kernels now, so that later commands and programs do not have to.

    Several processes compile in parallel and fill Numba's cache on disk. Run this after installing or updating the
    package, or when building a container image. It is idempotent: a second run finds everything in the cache. If some
    kernels cannot be compiled, they are named and the exit status is 1.

    Only one renderer is compiled: by default the one that environments choose on this machine. Name another
    one if your programs pass renderer=, or if a container image is built on a machine of another kind.

    Example: gym-batchnav warmup
    """
    from gym_batchnav.library.warmup import kernels_of_commands, warm_up
    from gym_batchnav.system.compilation import NOT_AHEAD

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NOT_AHEAD)  # said below
        compiled = warm_up(renderer)
    if as_json:
        figures = {"compiled": compiled.num_workloads, "seconds": compiled.seconds, "renderer": renderer}
        figures |= {"failed": compiled.failures, "directory": str(compiled.directory.parent)}
        if as_list and not compiled.failures:
            figures["kernels"] = kernels_of_commands(renderer)
        print(json.dumps(figures))
    elif not compiled.failures:
        kernels = f"all kernels, with those of renderer='{renderer}'"
        done = f"Compiled {kernels}, in {compiled.seconds:.1f} s" if compiled.num_workloads else f"Found {kernels}"
        message = f"{done}; the cache is in '{compiled.directory.parent}'"
        Console().print(message, highlight=False, markup=False, soft_wrap=True)
    if compiled.failures:
        raise RuntimeError(
            f"these kernels cannot be compiled: {'; '.join(compiled.failures)}. gym-batchnav doctor says what this "
            "machine lacks"
        )
    if as_list and not as_json:
        Console().print(_table(kernels_of_commands(renderer)))


def _table(kernels: dict[str, dict[str, int]]) -> Table:
    table = Table("command", Column("kernels", justify="right"), "for", box=SIMPLE, show_edge=False)
    for command, counts in kernels.items():
        purposes = ", ".join(f"{title} {count}" for title, count in counts.items() if count)
        table.add_row(command, str(sum(counts.values())), purposes)
    table.caption = "Each command compiles its kernels at its first start, unless warmup or another command has."
    return table
