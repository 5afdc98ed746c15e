"""``gym-batchnav warmup``: compile all kernels ahead of time."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console


def warmup(
    processes: Annotated[
        int | None, typer.Option(help="Number of processes; one per processor, at most 8, by default.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Compile all kernels now, so that later commands and programs do not have to.

    Several processes compile in parallel and fill Numba's cache on disk. Run this after installing or updating the
    package, or when building a container image. It is idempotent: a second run finds everything in the cache.

    Example: gym-batchnav warmup
    """
    from gym_batchnav.preparation.kernels import warm_up

    compiled = warm_up(processes)
    if as_json:
        figures = {"compiled": compiled.num_workloads, "seconds": compiled.seconds}
        print(json.dumps({**figures, "directory": str(compiled.directory.parent)}))
        return
    done = f"Compiled all kernels in {compiled.seconds:.1f} s" if compiled.num_workloads else "All kernels are compiled"
    message = f"{done}; the cache is in '{compiled.directory.parent}'"
    Console().print(message, highlight=False, markup=False, soft_wrap=True)
