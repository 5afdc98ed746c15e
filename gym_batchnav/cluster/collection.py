"""A collection of datasets as a job: each piece is a part of it. The dataset is in a folder that all nodes share.

Finished shards stay in the folder, so a node that is lost costs only those that it had not finished.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gym_batchnav.cluster.job import Finished
from gym_batchnav.cluster.ray_cluster import run_job
from gym_batchnav.collect.collector import Collected, collect
from gym_batchnav.collect.folder import ASIDE, remove_aside
from gym_batchnav.library.sources import with_absolute_paths
from gym_batchnav.system.parts import all_parts
from gym_batchnav.system.storage import make_folder

TOKEN = ".cluster-"  # begins the name of a file by which nodes recognize the folder
NUM_PARTS = 32  # each loads its scenes anew


@dataclass(frozen=True, slots=True)
class CollectedThere:
    """What the nodes of a cluster have collected.

    Attributes:
        num_shards: Shards that they wrote.
        num_episodes: Episodes in them.
        num_frames: Observations in them.
        seconds: Time of the work.
        peak_bytes: Memory that the images took, at most on one node.
    """

    num_shards: int = 0
    num_episodes: int = 0
    num_frames: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0

    def with_call(self, found: Collected) -> Collected:
        """Return the result of a later call of ``collect``, which found the shards of the nodes, with their work."""
        return replace(
            found,
            num_shards=self.num_shards + found.num_shards,
            num_episodes=self.num_episodes + found.num_episodes,
            num_frames=self.num_frames + found.num_frames,
            num_found=max(found.num_found - self.num_shards, 0),
            seconds=self.seconds + found.seconds,
            peak_bytes=max(self.peak_bytes, found.peak_bytes),
        )


@dataclass(frozen=True)
class CollectionJob:
    """A collection; piece p is part p + 1 of ``num_pieces``.

    Attributes:
        out: Folder of the dataset, which all nodes share.
        token: Path of a file in ``out``.
        keywords: Keywords of ``collect``, without ``out``, ``shard`` and ``progress``; they can be pickled.
        num_pieces: The number of parts.
    """

    out: Path
    token: Path
    keywords: Mapping[str, Any]
    num_pieces: int
    what: str = "Parts of the collection"
    grain: int = 1
    exclusive: bool = False

    def open(self) -> CollectionJob:
        """Check the folder.

        Raises:
            ValueError: It is not that of the driver.
        """
        if not self.token.is_file():
            raise ValueError(f"out='{self.out}': nodes do not share this folder: name one in a folder that they share")
        return self

    def run(self, pieces: list[int]) -> Iterator[Finished]:
        """Collect parts; the result of each is a CollectedThere of what was still missing."""
        for piece in pieces:
            done = collect(self.out, shard=all_parts(self.num_pieces)[piece], **self.keywords)
            counts = (done.num_shards, done.num_episodes, done.num_frames)
            yield Finished([piece], CollectedThere(*counts, done.seconds, done.peak_bytes))

    def close(self) -> None:
        """Do nothing, because every part releases what it loads."""


def collect_on(
    address: str,
    out: Path,
    keywords: Mapping[str, Any],
    num_parts: int | None = None,
    num_cpus: int | None = None,
) -> CollectedThere:
    """Collect a dataset on a Ray cluster.

    Args:
        address: See ``connected``.
        out: Folder of the dataset, which all nodes share; created if missing.
        keywords: Keywords of ``collect``, without ``out``, ``shard`` and ``progress``.
        num_parts: The number of parts in which nodes take the work; by default 32.
        num_cpus: See ``run_job``.

    Returns:
        The sums over all nodes, and the time of the whole work, with the start of nodes and the loading of scenes.
        What a node that was lost had finished but not reported does not count.

    Raises:
        ValueError: Nodes do not share the folder, or an argument is wrong.
    """
    out = out.resolve()
    token = out / ASIDE / f"{TOKEN}{secrets.token_hex(8)}"
    make_folder(token.parent)
    token.touch()
    started = time.perf_counter()
    parts: list[CollectedThere] = []
    try:
        job = CollectionJob(out, token, _for_nodes(keywords), num_parts or NUM_PARTS)
        for finished in run_job(job, address, num_cpus):
            parts.append(finished.result)
    finally:
        token.unlink(missing_ok=True)
        remove_aside(out)
    return CollectedThere(
        sum(part.num_shards for part in parts),
        sum(part.num_episodes for part in parts),
        sum(part.num_frames for part in parts),
        time.perf_counter() - started,
        max((part.peak_bytes for part in parts), default=0),
    )


def _for_nodes(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords whose paths are absolute, because nodes have other working folders."""
    given = dict(keywords)
    if "scenes" in given:
        given["scenes"] = with_absolute_paths(given["scenes"])
    if given.get("episode_file") is not None:
        given["episode_file"] = Path(given["episode_file"]).absolute()
    return given
