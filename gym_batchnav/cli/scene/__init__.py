"""``gym-batchnav scene``: describe, draw, generate and prepare scenes."""

from __future__ import annotations

import typer

from gym_batchnav.cli.scene.generate import generate
from gym_batchnav.cli.scene.info import info
from gym_batchnav.cli.scene.prepare import prepare

scene = typer.Typer(help="Describe, draw, generate and prepare scenes.", no_args_is_help=True)
for command in (info, prepare, generate):
    scene.command()(command)
