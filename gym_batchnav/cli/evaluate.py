"""``gym-batchnav evaluate``: score policies and other agents in held-out homes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from gym_batchnav.cli.evaluate_tables import print_tables, stop_hint, tables
from gym_batchnav.cli.flags import RayAddress, check_one_division, listed, refuse_options, train_extra
from gym_batchnav.system.nested import finite
from gym_batchnav.system.parts import Part
from gym_batchnav.system.storage import check_folder, make_folder
from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.evaluation.comparison import Comparison
    from gym_batchnav.evaluation.world import PolicyAbout
    from gym_batchnav.train.policy_agent import PolicyAgent

_OF_MERGING = ("shards", "policy", "agents", "renderer", "out", "as_json")  # parameters that apply to shards


def evaluate(
    context: typer.Context,
    shards: Annotated[
        list[Path] | None, typer.Argument(help="The --out folders of all shards, which are joined; nothing is run.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy file, a shipped policy such as pointnav_depth (the default), mapper, follower, random, or "
            "module:name of an agent or a function; repeatable for several seeds."
        ),
    ] = None,
    agents: Annotated[
        str | None,
        typer.Option(
            help="Agents to compare with, separated by commas: blind, random, follower (these three by default), "
            "mapper, policy files, module:name."
        ),
    ] = None,
    scenes: Annotated[
        list[str] | None,
        typer.Option(help="File, folder, pattern or name; repeatable (default: the preset's held-out homes)."),
    ] = None,
    episodes: Annotated[
        str | None,
        typer.Option(
            help="Total number of episodes (a multiple of the number of scenes; default: 25 per scene), or a "
            "Habitat dataset, of which all episodes of the given scenes are run."
        ),
    ] = None,
    num_envs: Annotated[int, typer.Option(help="Environments; the results do not depend on it.", min=1)] = 100,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample the actions of policy files instead of taking the most likely.")
    ] = False,
    protocol: Annotated[
        str | None, typer.Option(help="A paper's or challenge's protocol, such as pointnav-2021; not for policy files.")
    ] = None,
    renderer: Annotated[str, typer.Option(help="auto, warp, opengl or embree.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for figures and pictures; created if missing.")] = None,
    shard: Annotated[str | None, typer.Option(help="Run part i of n, i from 1 to n, as in 2/8.", metavar="i/n")] = None,
    ray: RayAddress = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")] = False,
) -> None:
    """Run every episode of a set exactly once and compare a policy with a blind, a random and a shortest-path agent.

    All sampled scenes have the same number of episodes, and the episodes do not depend on --num-envs. The environments
    have the settings of the training, which the policy's file describes, or for module:name those in its attribute
    env_keywords, a dict of keywords of BatchNavEnv. The tables have means and their 95% intervals, from a
    bootstrap over training seeds, scenes and the episodes in them; the interquartile mean over seeds and scenes; the
    probability that the policy is better than another agent; results by distance; and why episodes failed.

    With --out: results.json, protocol.json (settings, checksums, versions, seeds and rules), episodes.csv, scores.json
    (seeds by scenes, for rliable), profiles.png, failures.png (why episodes failed: map and views), trajectories.png
    (from above; the shortest paths in grey) and clip.gif of episodes from the nearest goal to the farthest.

    With --shard and --out, a process runs a part of the episodes and writes shard.json. All shards must then be joined:
    gym-batchnav evaluate shards/* --out report gives the same table and files as a single process, bit for bit; if the
    shards differ in policies, settings, scenes or versions, the error names the difference. With --ray, all nodes of a
    Ray cluster run episodes, and this process gathers the results and writes the files.

    Example: gym-batchnav evaluate --policy runs/a0/policy.safetensors --policy runs/a1/policy.safetensors --out report
    """
    from gym_batchnav.evaluation.comparison import Asked, make_comparison
    from gym_batchnav.evaluation.named_agents import check_name
    from gym_batchnav.evaluation.shards import merged
    from gym_batchnav.viz.report import check_figures

    for name in policy or ():
        check_name(name)
    if shards:
        taken = f"'{shards[0]}' is taken for the folder of one; quote patterns of scenes, and repeat --scenes"
        refuse_options(context, _OF_MERGING, f"when shards are joined ({taken})")
    part = Part.parse(shard)
    check_one_division(shard, ray)
    if shard is not None and out is None:
        raise ValueError(f"shard={part}: also pass out=, a folder for each shard")
    if out is not None:
        if shard is None:
            check_figures()
        check_folder(out)
    console = Console(stderr=as_json)
    named: dict[str, Any] = {} if agents is None else {"agents": listed(agents)}
    with console.status("Loading scenes"):
        if shards:
            drawn_by = None if renderer == "auto" else renderer
            comparison = merged(shards, _load, policy or (), listed(agents or ""), drawn_by, _note(console))
        else:
            is_number = str(episodes).removeprefix("-").isdecimal()
            asked = Asked(
                policies=tuple(policy or ()), scenes=tuple(scenes or ()), num_envs=num_envs,
                episodes=int(episodes) if episodes is not None and is_number else episodes,
                renderer=renderer, sample=sample, protocol=protocol, **named,
            )  # fmt: skip
            comparison = make_comparison(asked, _load, _note(console))
    try:
        if not shards:
            _run(comparison, part, ray)
        if shard is None or out is None:
            _report(comparison, out, as_json, console)
        else:
            _write_shard(comparison, part, out, as_json, console)
    finally:
        comparison.close()


def _load(path: Path, sample_seed: int | None) -> tuple[PolicyAgent, PolicyAbout]:
    """Load the agent of a policy file; nothing else in an evaluation needs torch."""
    with train_extra():
        from gym_batchnav.train.policy_agent import load_agent
    return load_agent(path, sample_seed)


def _note(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False)


def _run(comparison: Comparison, part: Part, ray: str | None) -> None:
    if ray is None:
        comparison.run(part)
        return
    from gym_batchnav.cluster.jobs import evaluate_on

    evaluate_on(ray, comparison)


def _write_shard(comparison: Comparison, part: Part, out: Path, as_json: bool, console: Console) -> None:
    """Write the results of a part, and print how all parts are joined."""
    from gym_batchnav.evaluation.shards import write_shard

    make_folder(out)
    file = write_shard(comparison, part, out)
    num_episodes = len(comparison.results[comparison.policies[0]])
    console.print(f"{file}  {counted(num_episodes, 'episode')} of each agent", highlight=False, markup=False)
    console.print("To join all shards: gym-batchnav evaluate FOLDER... --out OUT", markup=False)
    if as_json:
        print(json.dumps({"shard": str(part), "episodes": num_episodes, "file": str(file)}))


def _report(comparison: Comparison, out: Path | None, as_json: bool, console: Console) -> None:
    """Print the tables, write the files if there is a folder for them, and print the figures as JSON."""
    from gym_batchnav.evaluation.report import summary, write_report
    from gym_batchnav.viz.report import draw_report

    with console.status("Computing intervals"):
        found = summary(comparison)
    print_tables(tables(found, comparison.title), console)
    hint = stop_hint(found, comparison.asked.sample)
    if hint is not None:
        console.print(hint, style="yellow", markup=False, highlight=False)
    if out is not None:
        make_folder(out)
        with console.status("Drawing maps, failures and clip"):
            files = {**write_report(comparison, out, found), **draw_report(comparison, out, found)}
        for file, description in files.items():
            console.print(f"{file}  {description}", highlight=False, markup=False)
    if as_json:
        print(json.dumps(finite(found)))
