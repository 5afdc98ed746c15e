"""``gym-batchnav evaluate``: score a policy in held-out homes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.extras import train_extra
from gym_batchnav.cli.flags import errors_with_flags
from gym_batchnav.system.storage import make_folder
from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.evaluation.intervals import Estimate
    from gym_batchnav.train.comparison import Comparison

COLUMNS = {
    "spl": "SPL",
    "soft_spl": "SoftSPL",
    "success": "success",
    "collisions_count": "collisions",
    "num_steps": "steps",
}


def evaluate(
    policy: Annotated[Path | None, typer.Option(help="Policy file (default: the shipped one).")] = None,
    blind: Annotated[Path | None, typer.Option(help="Policy file of a blind agent to compare with.")] = None,
    scenes: Annotated[
        list[str] | None,
        typer.Option(help="File, folder, pattern or name; repeatable (default: the preset's held-out homes)."),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(help="Total number of episodes (default: 25 per scene).", min=1),
    ] = None,
    num_envs: Annotated[int, typer.Option(help="Environments; the results do not depend on it.", min=1)] = 100,
    seed: Annotated[
        int, typer.Option(help="Seed of sampled actions and bootstrap intervals.", min=0, max=2**32 - 1)
    ] = 0,
    sample: Annotated[bool, typer.Option("--sample", help="Sample actions instead of taking the most likely.")] = False,
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Compare with a blind policy that was trained with other settings.")
    ] = False,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for figures and pictures; created if missing.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object in the last line.")] = False,
) -> None:
    """Run every episode of a set exactly once and score a policy beside a blind, a random and a shortest-path agent.

    All scenes have the same number of episodes, and the episodes do not depend on --num-envs. The environments have the
    settings of the training, which the policy's file describes. The table has means and their 95% intervals, from a
    bootstrap over scenes and the episodes in them. With --out: results.json, protocol.json (settings, checksums,
    versions and seeds), episodes.csv, trajectories.png (from above; the shortest paths in grey) and clip.gif of the
    longest episodes.

    Example: gym-batchnav evaluate --policy runs/mine/policy.safetensors --episodes 500 --out report
    """
    with train_extra():
        from gym_batchnav.train.comparison import make_comparison

    console = Console(stderr=as_json)
    if out is not None:
        make_folder(out)
    flags = ("scenes", "episodes", "num_envs", "seed", "allow_mismatch", "renderer")
    with console.status("Loading scenes"), errors_with_flags(*flags, policy_file="policy", blind_file="blind"):
        comparison = make_comparison(
            policy, blind, scenes, episodes, num_envs, renderer, sample, seed, allow_mismatch,
            lambda text: console.print(text, markup=False),
        )  # fmt: skip
    try:
        comparison.run(seed)
        summary = comparison.summary(seed)
        console.print(_table(comparison, seed))
        if out is not None:
            with console.status("Drawing maps and clip"):
                files = comparison.write(out, summary)
            for file, description in files.items():
                console.print(f"{file}  {description}", highlight=False, markup=False)
    finally:
        comparison.close()
    if as_json:
        print(json.dumps(summary))


def _table(comparison: Comparison, seed: int) -> Table:
    """Return the figures of all agents as a table."""
    num_episodes = counted(len(comparison.results["policy"]), "episode")
    num_scenes = counted(len(comparison.env.library.active), "scene")
    title = escape(f"{comparison.policy_file.name}: {num_episodes} in {num_scenes}, 95% intervals")
    table = Table(title=title, box=SIMPLE, pad_edge=False, show_edge=False)
    table.add_column("agent", style="bold", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name, found in comparison.estimates(seed).items():
        cells = [_cell(found[measure]) if measure in found else "-" for measure in COLUMNS]
        table.add_row(name.replace("_", " "), *cells)
    return table


def _cell(estimate: Estimate) -> str:
    """Format a mean above its interval; values of at most 1 have more digits."""
    mean, edge = (3, 2) if estimate.high <= 1 else (1, 1)
    return f"{estimate.mean:.{mean}f}\n[dim]{estimate.low:.{edge}f}-{estimate.high:.{edge}f}[/dim]"
