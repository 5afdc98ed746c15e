"""The work of commands in shards: what each shard does on a node, and how the results are joined."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gym_batchnav.cluster.shards import SharedFolder, connected, run_shards, shared
from gym_batchnav.collect.collector import Collected, collect
from gym_batchnav.collect.folder import ASIDE
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.evaluation.agents import Agent
from gym_batchnav.evaluation.comparison import BLIND, Asked, Comparison, make_comparison
from gym_batchnav.evaluation.named_agents import user_file
from gym_batchnav.evaluation.shards import columns_of, differences, take_results
from gym_batchnav.evaluation.world import PolicyAbout
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources, with_absolute_paths
from gym_batchnav.library.workers import prepare_all
from gym_batchnav.system.parts import Part

MOST_PARTS = 512  # of a collection, each of which loads its scenes


def evaluate_on(address: str, comparison: Comparison, num_cpus: int | None = None) -> None:
    """Evaluate all agents of a comparison on a Ray cluster; results and protocol card are those of a single process.

    Policy files travel with the work. Agents of modules must be importable on every node, and files of scenes have the
    same paths on all nodes.

    Args:
        address: See ``connected``.
        comparison: The comparison; its own batches do not step.
        num_cpus: See ``run_shards``.

    Raises:
        ValueError: A node has other scenes or versions, or nodes draw with different renderers.
    """
    asked = comparison.asked
    episodes = os.path.abspath(asked.episodes) if isinstance(asked.episodes, str) else asked.episodes
    there = replace(asked, scenes=tuple(with_absolute_paths(asked.scenes)), episodes=episodes)
    work = partial(_evaluate, there, contents_of(asked))
    most = -(-len(comparison.numbers) // asked.num_envs)  # smaller batches would be slower
    found = run_shards(work, address, "Shards of the evaluation", most, num_cpus)
    card, _ = found[Part(1, len(found))]
    lines = differences(comparison.protocol(), card, without=("renderer",))
    if lines:
        raise ValueError(
            f"nodes have other scenes or versions than this machine: {'; '.join(lines)}: use the same ones on all nodes"
        )
    for card_there, _ in found.values():
        lines = differences(card, card_there)
        if lines:
            raise ValueError(
                f"nodes differ: {'; '.join(lines)}: use the same versions and scenes, and a renderer= that all have"
            )
    take_results(comparison, {agent: [rows[agent] for _, rows in found.values()] for agent in comparison.agents})
    comparison.card = card


def _evaluate(asked: Asked, files: Mapping[str, bytes], shard: Part) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the protocol card and, by agent, the columns of a shard's episodes."""
    with tempfile.TemporaryDirectory() as folder:
        comparison = make_comparison(asked.with_files(_written(files, Path(folder))), _load)
        try:
            comparison.run(shard)
            return comparison.protocol(), {name: columns_of(one) for name, one in comparison.results.items()}
        finally:
            comparison.close()


def _load(path: Path, sample_seed: int | None) -> tuple[Agent, PolicyAbout]:
    """Load the agent of a policy file; nothing else on a node needs torch."""
    from gym_batchnav.train.policy_agent import load_agent

    return load_agent(path, sample_seed)


def contents_of(asked: Asked) -> dict[str, bytes]:
    """Return the contents of policy files by their paths, except those given by a shipped policy's name."""
    names = (*asked.policies, *(name for name in asked.agents if name != BLIND))
    places = {name: file for name in names if (file := user_file(name)) is not None}
    return {name: place.read_bytes() for name, place in places.items()}


def _written(files: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    """Write files into a folder under their own names, from which agents have theirs."""
    places = {}
    for number, (name, content) in enumerate(files.items()):
        place = folder / str(number) / Path(name).name
        place.parent.mkdir()
        place.write_bytes(content)
        places[name] = place
    return places


def collect_on(address: str, out: Path, keywords: Mapping[str, Any], num_cpus: int | None = None) -> Collected:
    """Collect a dataset on a Ray cluster. Finished shards of the dataset stay in its folder.

    Args:
        address: See ``connected``.
        out: Folder of the dataset, which all nodes share; created if missing.
        keywords: Keywords of ``collect``, without ``out``, ``shard`` and ``progress``.
        num_cpus: See ``run_shards``.

    Returns:
        The work of all nodes; ``seconds`` includes the start of nodes and the loading of scenes.

    Raises:
        ValueError: Nodes do not share the folder, or an argument is wrong.
    """
    scenes = Scenes.of(keywords.get("scenes"))
    given = {**keywords, "scenes": replace(scenes, source=with_absolute_paths(scenes.source or "apartments"))}
    episodes = Episodes.of(given.get("episodes"))
    if episodes.file is not None:
        given["episodes"] = replace(episodes, file=Path(episodes.file).absolute())
    started = time.perf_counter()
    out = out.resolve()
    with connected(address), shared(out, "out", out / ASIDE) as folder:
        work = partial(_collect, folder, given)
        parts = run_shards(work, address, "Parts of the collection", MOST_PARTS, num_cpus).values()
    whole = collect(out, **keywords)  # finds all shards and makes the dataset
    num_shards = sum(part.num_shards for part in parts)
    return replace(
        whole,
        num_shards=whole.num_shards + num_shards,
        num_episodes=whole.num_episodes + sum(part.num_episodes for part in parts),
        num_frames=whole.num_frames + sum(part.num_frames for part in parts),
        num_found=whole.num_found - num_shards,
        seconds=time.perf_counter() - started,
        peak_bytes=max(whole.peak_bytes, *(part.peak_bytes for part in parts)),
        spilled_bytes=max(whole.spilled_bytes, *(part.spilled_bytes for part in parts)),
    )


def _collect(folder: SharedFolder, keywords: Mapping[str, Any], shard: Part) -> Collected:
    folder.check()
    return collect(folder.folder, shard=shard, **keywords)


def prepare_on(
    address: str,
    spec: Sequence[str],
    load_options: dict[str, Any],
    names: Sequence[str],
    preparer: NavigationPreparer,
    num_workers: int | None = None,
    num_cpus: int | None = None,
) -> list[tuple[str, str]]:
    """Prepare scenes on a Ray cluster.

    Args:
        address: See ``connected``.
        spec: The scenes, as for ``scenes=``.
        load_options: See ``scene_sources``.
        names: The names of those to prepare.
        preparer: Prepares the scenes, with a cache that all nodes share.
        num_workers: Processes per task; by default as many as processors and memory allow.
        num_cpus: See ``run_shards``.

    Returns:
        Name and reason of each scene that could not be prepared.

    Raises:
        ValueError: Nodes do not share the cache or the scenes.
    """
    assert preparer.cache is not None
    episode_file = None if preparer.episode_file is None else Path(preparer.episode_file).resolve()
    with shared(preparer.cache.directory, "cache_dir") as folder:
        for_nodes = replace(preparer, episode_file=episode_file, cache=None)
        there = with_absolute_paths(list(spec))
        work = partial(_prepare, folder, there, load_options, tuple(names), for_nodes, num_workers)
        found = run_shards(work, address, "Shards of the scenes", len(names), num_cpus)
    return [refused for shard in found.values() for refused in shard]


def _prepare(
    folder: SharedFolder,
    spec: list[str],
    load_options: dict[str, Any],
    names: Sequence[str],
    preparer: NavigationPreparer,
    num_workers: int | None,
    shard: Part,
) -> list[tuple[str, str]]:
    """Prepare a shard of the scenes; return those that cannot be used, with the reasons."""
    folder.check()
    cache = DiskCache(folder.folder)
    there = {source.name: source for source in scene_sources(spec, cache, load_options)}
    mine = shard.of(list(names))
    missing = [name for name in mine if name not in there]
    if missing:
        raise ValueError(f"scene {missing[0]!r} is not on this node: put scenes into a folder that nodes share")
    return prepare_all([there[name] for name in mine], replace(preparer, cache=cache), num_workers)
