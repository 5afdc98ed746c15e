"""``gym-batchnav tune``: settings that are fast on this machine, from the log of measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gym_batchnav.cli.flags import listed
from gym_batchnav.system.progress import share_progress
from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.tuning import Choice, SpeedSettings

_SECONDS = 2.0  # of a measurement, after warm-up


def tune(
    scenes: Annotated[
        list[str] | None, typer.Option(help="File, folder, pattern or name; repeatable (default: apartments).")
    ] = None,
    sensors: Annotated[str, typer.Option(help="Any of depth, rgb, semantic, separated by commas.")] = "depth",
    resolution: Annotated[
        list[str] | None, typer.Option(help="Pixels, such as 64 or 128x72; repeat it to compare (default: 64).")
    ] = None,
    explore: Annotated[int, typer.Option(help="First measure this many settings, drawn at random.", min=0)] = 0,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the first choice and the defaults at the end.")
    ] = False,
) -> None:
    """Choose the numbers of agents, resident scenes and threads for the highest speed of simulation.

    The choice is predicted from the log of tune's earlier measurements on this machine, which may be of other scenes.
    If the log has fewer than 12, tune measures 12 settings first, as with --explore 12; otherwise nothing is simulated
    unless --explore or --measure is given. The promised speed is a lower bound that about nine of ten measurements
    should reach; where no earlier measurement was similar, the bound is low. Set the threads of your program with
    numba.set_num_threads. GYM_BATCHNAV_RUNS names the file of the log; "off" turns it off.

    Example: gym-batchnav tune --scenes "homes/*.glb" --explore 12 --measure
    """
    import numpy as np

    from gym_batchnav import tuning
    from gym_batchnav.cli.bench import camera_of
    from gym_batchnav.render.api import find_renderer

    tuning.check_model()
    console = Console(highlight=False)
    log = tuning.runs_file()
    sizes = tuple((camera.width, camera.height) for camera in map(camera_of, resolution or ["64"]))
    work = tuning.Workload(tuple(scenes or ("apartments",)), listed(sensors))
    drawn_by = find_renderer("auto")
    known = [] if log is None or not log.exists() else tuning.read_runs(log)
    with console.status("Loading scenes"):
        situation = work.situation(drawn_by.on_gpu)
    settings = tuning.candidates(situation, drawn_by.name, sizes)
    if not explore and len(known) < tuning.MIN_RUNS:
        explore = tuning.MIN_RUNS
        console.print(
            f"The log has {counted(len(known), 'run')}, but {explore} are needed: measuring {explore} settings, as "
            f"with --explore {explore}"
        )
    mops = situation.calibration_mops
    before = {run.settings for run in known if replace(run.situation, calibration_mops=mops) == situation}
    shuffled = [settings[row] for row in np.random.default_rng(0).permutation(len(settings)).tolist()]
    order = sorted(shuffled, key=lambda one: one in before)[:explore]  # those without a run first
    with share_progress("Measuring") as show:
        for done, one in enumerate(order):
            known.append(work.measure(situation, one, _SECONDS))
            tuning.record_run(known[-1])
            show((done + 1) / len(order))
    choices = tuning.choose(known, situation, settings)
    usual = tuning.defaults(situation, drawn_by.name, sizes[0])
    measured: dict[SpeedSettings, float] = {}
    if measure:
        with console.status("Measuring the first choice and the defaults"):
            for one in (choices[0].settings, usual):
                run = work.measure(situation, one, _SECONDS)
                tuning.record_run(run)
                measured[one] = run.fps
    console.print(_table(choices, usual, measured, len(known)))


def _table(choices: list[Choice], usual: SpeedSettings, measured: dict[SpeedSettings, float], num_runs: int) -> Table:
    """Return the choices as a table, the best first, and the defaults if they were measured."""
    table = Table(title=f"Settings by promised frames/s, from {num_runs:,} runs")
    for column in ("", "agents", "resident scenes", "threads", "pixels", "promised", "expected", "measured"):
        table.add_column(column, justify="right")
    rows = [(one.settings, f"{one.promised:,.0f}", f"{one.expected:,.0f}") for one in choices]
    rows += [(usual, "", "")] if measured else []
    for number, (one, promised, expected) in enumerate(rows, 1):
        name = "defaults" if number > len(choices) else str(number)
        cells = [name, one.num_envs, one.resident_scenes, one.threads, f"{one.width} x {one.height}"]
        fps = f"{measured[one]:,.0f}" if one in measured else ""
        table.add_row(*map(str, cells), promised, expected, fps)
    return table
