"""``gym-batchnav scene``: look at scenes, make them, and prepare them ahead."""

from __future__ import annotations

import typer

from gym_batchnav.cli.scene.generate import generate
from gym_batchnav.cli.scene.info import info
from gym_batchnav.cli.scene.navmesh import navmesh
from gym_batchnav.cli.scene.prepare import prepare
from gym_batchnav.cli.scene.view import view

scene = typer.Typer(help="Look at scenes, make them, and prepare them ahead.", no_args_is_help=True)
for command in (info, view, navmesh, prepare, generate):
    scene.command()(command)
