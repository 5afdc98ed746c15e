"""``gym-batchnav train``: train a policy and show its progress."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from gym_batchnav.cli.flags import train_extra
from gym_batchnav.cli.interruption import INTERRUPTED, Interruption
from gym_batchnav.system.code import PACKAGE
from gym_batchnav.system.extras import MissingExtraError, install_command
from gym_batchnav.system.numbers import check_choice
from gym_batchnav.system.wording import counted, measure_in_words

if TYPE_CHECKING:
    from gym_batchnav.train.run import TrainingRun

LINE_SECONDS = 30.0  # between two lines if there is no terminal
SETTLED = 5.0  # seconds until the remaining time is estimated
LONG = 3600.0  # seconds; a training without a time limit that needs more gets a hint


def train(
    preset: Annotated[
        str | None,
        typer.Option(
            help="cpu (the default), gpu, pointnav_depth, pointnav_map, pointnav_rgb, paper-depth or paper-rgb."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; created if missing.")] = Path("batchnav-train"),
    time_limit: Annotated[
        str | None, typer.Option(help="Length of the training, such as 90s, 60m or 2h. Loading does not count.")
    ] = None,
    frames: Annotated[
        int | None, typer.Option(help="Length of the training in environment steps, summed over environments.", min=1)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed; with --frames, the same seed gives the same run.", min=0, max=2**32 - 1),
    ] = None,
    scenes: Annotated[list[str] | None, typer.Option(help="Training scenes, as for scenes=; repeatable.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Network: small, compact, narrow, scan, blind, paper or ddppo-resnet50 (default: the preset's)."
        ),
    ] = None,
    renderer: Annotated[str | None, typer.Option(help="auto (the default), warp, opengl or embree.")] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Begin with the weights of a policy file, or of a shipped policy such as pointnav_depth, without the "
            "preset's teacher."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="File with settings: TOML, or the run.json of another run; options override it.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, such as num_envs=64, threads=1 or ppo.gamma=0.995; repeatable."),
    ] = None,
    logger: Annotated[
        list[str] | None,
        typer.Option(help="tensorboard (the default), wandb or jsonl (curve.jsonl alone); repeatable."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in --out, or start one if there is none.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the agents in the browser while they train; needs the extra \\[view].")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as one JSON object on the last line.")
    ] = False,
) -> None:
    """Train an agent to reach its goals.

    The learning rate follows the progress of --frames or --time-limit, whichever is further along. The run writes its
    learning curve (curve.jsonl, curve.png, tensorboard/) and checkpoints to --out and, when it ends or is interrupted,
    policy.safetensors. Ctrl-C saves and exits; a second Ctrl-C exits at once. SIGTERM and SIGUSR1 do the same. The exit
    status is 130 if the run was saved before it was complete.

    --config reads settings from a TOML file, whose tables (ppo, camera, task) are nested settings, or from the
    run.json of another run. Without it, a run has the settings of --preset. --set changes any of them.

    Example: gym-batchnav train --preset cpu --time-limit 60m --set ppo.gamma=0.995 --out runs/first
    """
    given = {
        "preset": preset,
        "seed": seed,
        "frames": frames,
        "time_limit": time_limit,
        "scenes": tuple(scenes) if scenes else None,
        "policy": policy,
        "renderer": renderer,
        "init": init,
    }
    _check_before_torch(preset, config, logger or (), watch)
    with train_extra():
        from gym_batchnav.train.config import parse_assignment, read_config, updated
        from gym_batchnav.train.run import TrainingRun

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    names = {} if config is None else read_config(config)
    for change in changes or ():
        names = updated(names, dict([parse_assignment(change)]))
    names = updated(names, given)
    run = TrainingRun(out, names, resume, note=console.print, loggers=logger)
    console.quiet = run.workers.rank != 0
    try:
        console.print(_headline(run))
        with _window(run, watch, console), Interruption() as interruption, Display(run, console) as display:
            complete = run.train(lambda: interruption.requested, display.show)
            summary = {**run.finish(), "complete": complete}
    finally:
        run.close()
    console.print(_table(summary, run.scores))
    for file in summary["files"]:
        console.print(file, markup=False)
    if not complete:
        console.print(f"Saved. Resume it with: gym-batchnav train --out '{out}' --resume", markup=False)
    if as_json and not console.quiet:
        print(json.dumps(summary))
    if not complete:
        raise typer.Exit(INTERRUPTED)


def _check_before_torch(preset: str | None, config: Path | None, loggers: Sequence[str], watch: bool) -> None:
    """Raise an error for what is wrong without importing torch, which takes seconds."""
    presets = sorted(file.stem for file in (PACKAGE / "train" / "presets").glob("*.toml"))
    if preset is not None:
        check_choice("preset", preset, presets)
    if config is not None and not config.is_file():
        raise FileNotFoundError(f"there is no run file '{config}': check the path")
    if "wandb" in loggers and find_spec("wandb") is None:
        raise MissingExtraError(f"logger='wandb' needs the extra [wandb]: {install_command('wandb')}")
    if watch and find_spec("viser") is None:
        raise MissingExtraError(f"--watch needs the extra [view]: {install_command('view')}")


def _window(run: TrainingRun, watch: bool, console: Console) -> AbstractContextManager[Any]:
    """Open a window onto the training of the first worker, if it is wanted."""
    if not watch or run.workers.rank != 0:
        return nullcontext()
    from gym_batchnav.viz.window.watch import serve

    window = serve(run.env)
    console.print(f"Watch it at {window.url}", markup=False)
    return window


class Display:
    """Progress of a run: a live bar on a terminal, a line every half minute elsewhere."""

    def __init__(self, run: TrainingRun, console: Console) -> None:
        columns = (TextColumn("{task.percentage:.0f}%"), BarColumn(bar_width=20), TextColumn("{task.description}"))
        self._console = console
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=1.0)
        self._start = (time.perf_counter(), run.progress, run.ppo.frames)
        self._seconds = run.seconds  # of training in earlier processes
        self._num_rows = len(run.rows)  # rows of earlier processes
        self._last_line = time.perf_counter() - LINE_SECONDS + 5  # the first line comes soon

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show(self, run: TrainingRun) -> None:
        """Show the progress; called after every iteration."""
        if self._console.is_terminal:
            self._bar.update(self._task, completed=run.progress, description="\n".join(self._lines(run)))
        elif time.perf_counter() - self._last_line > LINE_SECONDS:
            self._last_line = time.perf_counter()
            self._console.print(" | ".join([f"{100 * run.progress:.0f}%", *self._lines(run)]), markup=False)

    def _lines(self, run: TrainingRun) -> list[str]:
        """Return three lines: frames, frame rate and remaining time; scores; shares of the phases."""
        clock, progress, frames = self._start
        elapsed = time.perf_counter() - clock
        gained = run.progress - progress
        row = run.rows[-1] if len(run.rows) > self._num_rows else None
        rate = (run.ppo.frames - frames) / elapsed if row is None else row["fps"]
        left = ""
        if elapsed > SETTLED and gained > 0:
            limit = run.config.time_limit
            most = math.inf if limit is None else max(limit - self._seconds - elapsed, 0.0)
            rest = min(elapsed * (1 - run.progress) / gained, most)
            left = f", {_clock(rest)} left"
            if limit is None and rest > LONG:
                left += " (--time-limit shortens it; Ctrl-C saves the policy)"
        lines = [f"{run.ppo.frames / 1e6:.2f}M frames, {rate:,.0f}/s{left}"]
        if row is not None:
            if row["episodes"]:
                guided = (
                    " (may fall, because the teacher takes fewer and fewer actions)"
                    if row["losses"].get("teacher")
                    else ""
                )
                scores = (f"{measure_in_words(name)} {row[name]:.2f}" for name in run.scores)
                lines.append(f"{', '.join(scores)}{guided}")
            total = sum(row["parts"].values())
            lines.append(" ".join(f"{part} {value / total:.0%}" for part, value in row["parts"].items()))
        return lines


def _clock(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _headline(run: TrainingRun) -> str:
    config = run.config
    limit = config.time_limit
    parameters = sum(one.numel() for one in run.ppo.policy.parameters())
    ends = f"{config.ppo.total_frames:,} frames" + ("" if limit is None else f" or {_clock(limit)}")
    workers = "" if run.workers.size == 1 else f", {run.workers.size} workers"
    threads = counted(run.threads, "thread")
    return (
        f"Training {config.policy!r} ({parameters:,} parameters) with {counted(config.num_envs, 'agent')} on "
        f"{config.device}{workers}, {threads}, up to {ends}"
    )


def _table(summary: dict[str, Any], scores: Sequence[str]) -> Table:
    table = Table(title=f"{summary['frames']:,} frames, {_clock(summary['seconds'])} of training")
    table.add_column("", style="bold")
    table.add_column("us per frame", justify="right")
    table.add_column("share", justify="right")
    total = sum(summary["parts"].values())
    for part, microseconds in summary["parts"].items():
        table.add_row(part, f"{microseconds:.1f}", f"{microseconds / total:.1%}")
    table.add_section()
    if summary["fps"] is not None:
        table.add_row("frames/s", f"{summary['fps']:,.0f}", "")
    for name in scores:
        mean = "-" if summary[name] is None else f"{summary[name]:.3f}"
        table.add_row(f"{measure_in_words(name)}, last minute", mean, "")
    return table
