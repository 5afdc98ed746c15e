"""``gym-batchnav plot``: compare the learning curves of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.extras import train_extra
from gym_batchnav.system.storage import check_destination


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, as --out of train names them.")],
    measure: Annotated[str, typer.Option(help="Measure to draw, such as spl, success or fps.")] = "spl",
    by: Annotated[str, typer.Option(help="Horizontal axis: frames or hours.")] = "frames",
    out: Annotated[Path, typer.Option(help="PNG file.")] = Path("curves.png"),
) -> None:
    """Draw the learning curves of several runs in one figure and print where they end.

    Runs that differ in their seed alone become one curve: the mean, with the range of the seeds behind it.

    Example: gym-batchnav plot runs/a0 runs/a1 runs/b --measure success --out curves.png
    """
    with train_extra():
        from gym_batchnav.train.run.plot import AXES, draw_curves, grouped, read_curve

    if by not in AXES:
        raise ValueError(f"--by {by!r}: choose one of {', '.join(AXES)}")
    check_destination(out)
    curves = [read_curve(folder, measure, by) for folder in runs]
    draw_curves(curves, out, measure, by)
    table = Table(title=f"{escape(measure)} at the end of each run")
    for column in ("run", "seeds", "million frames", "hours", escape(measure)):
        table.add_column(column, justify="left" if column == "run" else "right")
    for group in grouped(curves):
        frames = np.mean([one.rows[-1]["frames"] for one in group]) / 1e6
        hours = np.mean([one.rows[-1]["seconds"] for one in group]) / 3600
        last = [float(one.y[-1]) for one in group]
        spread = f" ({min(last):.3f} to {max(last):.3f})" if len(group) > 1 else ""
        row = (group[0].name, str(len(group)), f"{frames:.2f}", f"{hours:.2f}", f"{np.mean(last):.3f}{spread}")
        table.add_row(*map(escape, row))
    console = Console()
    console.print(table)
    console.print(out, markup=False)
