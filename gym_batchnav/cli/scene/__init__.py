"""``gym-batchnav scene``: describe, draw, generate and prepare scenes."""

from __future__ import annotations

import typer

from gym_batchnav.cli.scene.generate import generate
from gym_batchnav.cli.scene.info import info
from gym_batchnav.cli.scene.navmesh import navmesh
from gym_batchnav.cli.scene.prepare import prepare
from gym_batchnav.cli.scene.view import view

scene = typer.Typer(help="Describe, draw, generate and prepare scenes.", no_args_is_help=True)
for command in (info, view, navmesh, prepare, generate):
    scene.command()(command)
