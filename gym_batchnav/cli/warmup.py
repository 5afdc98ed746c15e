"""``gym-batchnav warmup``: compile the kernels ahead of time."""

from __future__ import annotations

import json
import warnings
from typing import Annotated

import typer
from rich.console import Console


def warmup(
    processes: Annotated[
        int | None, typer.Option(help="Number of processes; one per processor, at most 8, by default.", min=1)
    ] = None,
    renderer: Annotated[str, typer.Option(help="The renderer to compile: auto, warp, opengl or embree.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Compile the kernels now, so that later commands and programs do not have to.

    Several processes compile in parallel and fill Numba's cache on disk. Run this after installing or updating the
    package, or when building a container image. It is idempotent: a second run finds everything in the cache. If some
    kernels cannot be compiled, they are named and the exit status is 1.

    Of the renderers, only one is compiled: by default the one that environments choose on this machine. Name the other
    if your programs pass renderer=, or if a container image is built on a machine of another kind.

    Example: gym-batchnav warmup
    """
    from gym_batchnav.library.warmup import warm_up
    from gym_batchnav.system.compilation import NOT_AHEAD

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NOT_AHEAD)  # said below
        compiled = warm_up(processes, renderer)
    if as_json:
        figures = {"compiled": compiled.num_workloads, "seconds": compiled.seconds, "renderer": renderer}
        print(json.dumps({**figures, "failed": compiled.failures, "directory": str(compiled.directory.parent)}))
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
