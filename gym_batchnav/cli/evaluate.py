"""``gym-batchnav evaluate``: score policies and other agents in held-out homes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gym_batchnav.cli.cluster import RayAddress, RayCpus, check_one_division
from gym_batchnav.cli.evaluate_tables import print_tables, stop_hint, tables
from gym_batchnav.cli.extras import train_extra
from gym_batchnav.cli.flags import listed, refuse_options
from gym_batchnav.system.nested import finite
from gym_batchnav.system.parts import Part
from gym_batchnav.system.storage import make_folder
from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.evaluation.comparison import Comparison
    from gym_batchnav.evaluation.world import PolicyAbout
    from gym_batchnav.train.policy_agent import PolicyAgent

AGENTS = "blind,random,follower"


evaluation = typer.Typer()


@evaluation.callback(invoke_without_command=True)
def evaluate(
    context: typer.Context,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy file, pointnav_depth (the default), mapper or module:function; repeatable for several seeds."
        ),
    ] = None,
    agents: Annotated[
        str,
        typer.Option(
            help="Agents beside it, separated by commas: blind, random, follower, mapper, files, module:function."
        ),
    ] = AGENTS,
    blind: Annotated[
        Path | None, typer.Option(help="Policy file of the blind agent (default: the shipped one).")
    ] = None,
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
        bool, typer.Option("--allow-mismatch", help="Compare policies that were trained with other settings.")
    ] = False,
    protocol: Annotated[
        str | None, typer.Option(help="For module:function: a paper's or challenge's protocol, such as pointnav-2021.")
    ] = None,
    sensors: Annotated[
        str | None, typer.Option(help="For module:function: images, separated by commas (default: depth).")
    ] = None,
    renderer: Annotated[str, typer.Option(help="auto, warp, opengl or embree.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for figures and pictures; created if missing.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="Run only every n-th episode, from the i-th on, as in 2/8.", metavar="i/n")
    ] = None,
    ray: RayAddress = None,
    ray_cpus: RayCpus = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object in the last line.")] = False,
) -> None:
    """Run every episode of a set exactly once and score a policy beside a blind, a random and a shortest-path agent.

    All scenes have the same number of episodes, and the episodes do not depend on --num-envs. The environments have the
    settings of the training, which the policy's file describes. The tables have means and their 95% intervals, from a
    bootstrap over training seeds, scenes and the episodes in them; the interquartile mean over seeds and scenes; the
    probability that the policy is better than another agent; results by distance; and why episodes failed.

    With --out: results.json, protocol.json (settings, checksums, versions, seeds and rules), episodes.csv, scores.json
    (seeds by scenes, for rliable), profiles.png, failures.png (why episodes failed: map and views), trajectories.png
    (from above; the shortest paths in grey) and clip.gif of the longest episodes.

    With --shard and --out, a process runs a part of the episodes and writes shard.json. evaluate merge then gives the
    same table and files as one process, equal to the bit. Each shard loads all scenes. With --ray, all nodes of a Ray
    cluster run episodes, and this process gathers the results and writes the files.

    Example: gym-batchnav evaluate --policy runs/a0/policy.safetensors --policy runs/a1/policy.safetensors --out report
    """
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    from gym_batchnav.evaluation.comparison import Asked, make_comparison
    from gym_batchnav.evaluation.named_agents import check_name
    from gym_batchnav.evaluation.shards import write_shard
    from gym_batchnav.viz.report import check_figures

    for name in policy or ():
        check_name(name)

    console = Console(stderr=as_json)
    part = Part.parse(shard)
    check_one_division(shard, ray, ray_cpus)
    if shard is not None and out is None:
        raise ValueError(f"shard={part}: also pass out=, a folder of its own for each shard")
    if out is not None:
        if shard is None:
            check_figures()
        make_folder(out)
    asked = Asked(
        policies=tuple(policy or ()), blind_file=blind, agents=listed(agents), scenes=tuple(scenes or ()),
        episodes=episodes, num_envs=num_envs, renderer=renderer, sample=sample, seed=seed,
        allow_mismatch=allow_mismatch, protocol=protocol, sensors=None if sensors is None else listed(sensors),
    )  # fmt: skip
    with console.status("Loading scenes"):
        comparison = make_comparison(asked, _load, _note(console))
    try:
        _run(comparison, seed, part, ray, ray_cpus)
        if shard is None or out is None:
            _report(comparison, seed, out, as_json, console)
            return
        file = write_shard(comparison, part, out)
        num_episodes = len(comparison.results[comparison.policies[0]])
    finally:
        comparison.close()
    told = f"{file}  {counted(num_episodes, 'episode')} of each agent, shard {part}: join them with evaluate merge"
    console.print(told, highlight=False, markup=False)
    if as_json:
        print(json.dumps({"shard": str(part), "episodes": num_episodes, "file": str(file)}))


@evaluation.command()
def merge(
    out: Annotated[Path, typer.Argument(help="Folder for the joint figures and pictures; created if missing.")],
    folders: Annotated[list[Path], typer.Argument(help="The --out folders of all shards.")],
    policy: Annotated[
        list[str] | None, typer.Option(help="The policies, if they are not where the shards read them; repeatable.")
    ] = None,
    agents: Annotated[
        str, typer.Option(help="The --agents of the shards; needed if module:function is one of them.")
    ] = "",
    blind: Annotated[Path | None, typer.Option(help="The file of the blind agent, like --policy.")] = None,
    renderer: Annotated[str | None, typer.Option(help="Draws the pictures (default: as for the shards).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object in the last line.")] = False,
) -> None:
    """Join the shards of an evaluation: print the table and write the files of a single run.

    All shards must be there, once each, with the same policies, settings, scenes and versions; otherwise nothing is
    written, and the error names the difference.

    Example: gym-batchnav evaluate merge report shards/1 shards/2 shards/3
    """
    from gym_batchnav.evaluation.shards import merged
    from gym_batchnav.viz.report import check_figures

    check_figures()
    console = Console(stderr=as_json)
    with console.status("Loading scenes"):
        comparison = merged(folders, _load, policy or (), listed(agents), blind, renderer, _note(console))
    try:
        make_folder(out)
        _report(comparison, comparison.asked.seed, out, as_json, console)
    finally:
        comparison.close()


def _load(path: Path, sample_seed: int | None, allow_mismatch: bool) -> tuple[PolicyAgent, PolicyAbout]:
    """Load the agent of a policy file, for which alone an evaluation needs torch."""
    with train_extra():
        from gym_batchnav.train.policy_agent import load_agent
    return load_agent(path, sample_seed, allow_mismatch)


def _note(console: Console) -> Callable[[str], None]:
    """Return a function that prints a message as it is."""
    return lambda text: console.print(text, markup=False)


def _run(comparison: Comparison, seed: int, part: Part, ray: str | None, ray_cpus: int | None) -> None:
    """Evaluate the agents here or on a Ray cluster."""
    if ray is None:
        comparison.run(seed, part)
        return
    from gym_batchnav.cluster.jobs import evaluate_on

    evaluate_on(ray, comparison, ray_cpus)


def _report(comparison: Comparison, seed: int, out: Path | None, as_json: bool, console: Console) -> None:
    """Print the tables, write the files if there is a folder for them, and print the figures as JSON."""
    from gym_batchnav.evaluation.report import summary, write_report
    from gym_batchnav.viz.report import draw_report

    with console.status("Computing intervals"):
        found = summary(comparison, seed)
    print_tables(tables(found, comparison.title), console)
    hint = stop_hint(found, comparison.asked.sample)
    if hint is not None:
        console.print(hint, style="yellow", markup=False, highlight=False)
    if out is not None:
        with console.status("Drawing maps, failures and clip"):
            files = {**write_report(comparison, out, found), **draw_report(comparison, out, found)}
        for file, description in files.items():
            console.print(f"{file}  {description}", highlight=False, markup=False)
    if as_json:
        print(json.dumps(finite(found)))
