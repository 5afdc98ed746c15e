"""``gym-batchnav doctor``: diagnosis of this machine, with advice on missing parts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.doctor import Diagnosis

_MEBIBYTE = 2**20


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False) -> None:
    """Diagnose this machine: list devices and versions, explain the choice of renderer, and suggest what to install.

    Exits with status 1 if no renderer can run. Attach the output of --json to bug reports.

    Example: gym-batchnav doctor
    """
    from gym_batchnav.doctor import diagnose

    found = diagnose()
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        _show(found, Console())
    if not found.renderer:
        raise typer.Exit(1)


def _show(found: Diagnosis, console: Console) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows(found):
        table.add_row(name, escape(value))
    console.print(table)
    if not found.advice:
        console.print("[green]Nothing is missing.[/]")
    for line in found.advice:
        console.print(f"[yellow]To do:[/] {escape(line)}", highlight=False)


def rows(found: Diagnosis) -> list[tuple[str, str]]:
    """Return the rows of the table: name and value."""
    graphics = found.graphics
    missing = [name for name, number in found.versions.items() if number is None]
    present = [f"{name} {number}" for name, number in found.versions.items() if number is not None]
    threads = found.threads
    on_cores = f"{threads['numba']} of Numba ({threads['layer']}) on {counted(threads['cores'], 'core')}"
    variables = ", ".join(f"{name}={value}" for name, value in threads["variables"].items())
    lines = [
        ("versions", ", ".join(present) + (f"; not installed: {', '.join(missing)}" if missing else "")),
        ('renderer="auto"', f"{found.renderer or 'none'}: {found.reason}"),
        ("OpenGL", f"{graphics.opengl}, {graphics.version}" if graphics.opengl else f"none: {graphics.error}"),
        (
            "EGL",
            f"{'loader found' if graphics.loader else 'no loader'}; drivers: {', '.join(graphics.vendors) or 'none'}",
        ),
        *((("", device)) for device in graphics.egl),
        ("NVIDIA driver", graphics.driver or "none"),
        ('obs_device="cuda"', "ready" if not found.cuda_error else f"no: {found.cuda_error}"),
        ("Embree", found.embree or f"none: {found.embree_error}"),
        ("threads", f"{on_cores}; {variables}".rstrip("; ")),
    ]
    for name, folder in found.caches.items():
        state = "writable" if folder.writable else "NOT writable"
        lines.append((f"cache, {name}", f"{folder.path} ({folder.nbytes / _MEBIBYTE:,.0f} MiB, {state})"))
    return lines
