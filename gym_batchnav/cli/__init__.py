"""The command line, ``gym-batchnav``: one module per command."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import gym_batchnav
from gym_batchnav.cli.bench import bench
from gym_batchnav.cli.collect import collect
from gym_batchnav.cli.data import data
from gym_batchnav.cli.demo import demo
from gym_batchnav.cli.doctor import doctor
from gym_batchnav.cli.episodes import episodes
from gym_batchnav.cli.evaluate import evaluate
from gym_batchnav.cli.scene import scene
from gym_batchnav.cli.train import train
from gym_batchnav.cli.tune import tune
from gym_batchnav.cli.view import view
from gym_batchnav.cli.warmup import warmup
from gym_batchnav.system.extras import MissingExtraError

app = typer.Typer(
    help="Thousands of agents navigating shared, textured 3-D homes as one batch.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        print(gym_batchnav.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Thousands of agents navigating shared, textured 3-D homes as one batch."""


for command in (demo, doctor, warmup, view, train, evaluate, tune, bench, data, episodes):
    app.command()(command)
app.add_typer(scene, name="scene")
app.add_typer(collect, name="collect")


def main() -> None:
    """Run the command line; errors that the user can fix are printed as one line, without a traceback."""
    warnings.formatwarning = lambda message, *_, **__: f"note: {message}\n"
    try:
        app()
    except (ValueError, OSError, RuntimeError, MissingExtraError) as error:
        Console(stderr=True, emoji=False).print(f"[red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(1)
