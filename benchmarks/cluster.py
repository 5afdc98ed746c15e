"""Rates of `evaluate --ray` on 1, 2, 4 and 8 local nodes, and a model of the cost of 10, 100 and 10,000 nodes.

python benchmarks/cluster.py [--nodes 1 2 4 8] [--rounds 3] [--price 0.40] [--json]        # extra [ray]; ten minutes

A node is a Ray node with one processor on this machine. There are two workloads: "waiting" shards sleep, so that eight
nodes do not share processors and the figures show what Ray and the driver cost; "working" shards evaluate an agent
without images, on as many nodes as this machine has processors. The model is

    seconds(n) = connect + shards * driver + ceil(shards / n) * (shard + work / shards),   shards = 4 n

`work` and `shard` (a process with its scenes) come from working shards on one node, `connect` and `driver` from waiting
shards on the first two counts of nodes. The other counts check it: it exits with 1 if the model differs from a
measurement by more than 15%. docs/cluster.md lists what the model assumes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from gym_batchnav.cluster.shards import SHARDS_PER_PLACE, connected, run_shards
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.evaluation.agents import ShortestPathAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.system.parts import Part
from gym_batchnav.system.process import num_processors

BAR = 0.15
LARGE = (10, 100, 10_000)
EPISODES = 1_000_000  # of the job in the table of large clusters
NUM_ENVS = 64
REST = 2.0  # seconds of a waiting shard
SIZES = (256, 4096)  # episodes of a working shard


@dataclass(frozen=True)
class Shard:
    """Time and memory of a shard on a node.

    Attributes:
        seconds: From the first line of the shard on.
        memory: Bytes of the process at its end.
        result_bytes: Bytes of the result in a message.
    """

    seconds: float
    memory: int
    result_bytes: int


@dataclass(frozen=True)
class Costs:
    """The constants of the model.

    Attributes:
        connect: Seconds until the first shard runs, once.
        driver: Seconds of the driver for each shard, one after the other.
        shard: Seconds of a node to begin a shard: a process and its scenes.
        episode: Seconds of a node for an episode.
        memory: Bytes of a process on a node.
        result_bytes: Bytes of an episode in a message.
        work_bytes: Bytes of the work, which every node receives once.
    """

    connect: float
    driver: float
    shard: float
    episode: float
    memory: float
    result_bytes: float
    work_bytes: float

    def seconds(self, nodes: int, shard_seconds: float) -> float:
        """Return the time of 4 n shards of some duration on n nodes."""
        return self.connect + SHARDS_PER_PLACE * (nodes * self.driver + shard_seconds)

    def job(self, nodes: int, episodes: int) -> dict[str, float]:
        """Return seconds, node hours, bytes of network and bytes of the driver for a number of episodes."""
        shards = min(SHARDS_PER_PLACE * nodes, -(-episodes // NUM_ENVS))
        turns = math.ceil(shards / nodes)
        seconds = self.connect + shards * self.driver + turns * (self.shard + self.episode * episodes / shards)
        return {
            "seconds": seconds,
            "node_hours": nodes * seconds / 3600,
            "network_bytes": nodes * self.work_bytes + episodes * self.result_bytes,
            "driver_bytes": 2 * episodes * self.result_bytes,  # the messages, and the joined columns
            "efficiency": self.episode * episodes / (nodes * seconds),
        }


def rest(seconds: float, shard: Part) -> None:
    """Do nothing for a while."""
    time.sleep(seconds)


def work(episodes: int, shard: Part) -> Shard:
    """Evaluate a shortest-path agent in four homes, as a shard of an evaluation does."""
    import resource

    begun = time.perf_counter()
    env = BatchNavEnv(
        NUM_ENVS,
        scenes="procedural:0-3",
        sensors=(),
        episodes=Episodes(order="once", count=max(SIZES) // 4),
    )
    try:
        found = evaluate(env, ShortestPathAgent(), episodes_per_scene=episodes // 4)
    finally:
        env.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    columns = {name: getattr(found, name) for name in ("episode_index", *found.measures)}
    return Shard(time.perf_counter() - begun, memory, len(pickle.dumps(columns)))


def timed(work: partial[object], address: str, shards: int) -> tuple[float, list[object]]:
    """Return the seconds and the results of some shards."""
    begun = time.perf_counter()
    found = run_shards(work, address, "Shards", shards, 1)
    return time.perf_counter() - begun, list(found.values())


def measure(counts: list[int], rounds: int) -> tuple[Costs, list[dict[str, float]]]:
    """Return the costs, and for each count of nodes what was measured and what the model says."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from ray_nodes import LocalNodes

    work_bytes = len(pickle.dumps(partial(rest, REST)))
    waited: dict[int, float] = {}
    worked: dict[int, float] = {}
    small: list[Shard] = []
    large: list[Shard] = []
    for nodes in counts:
        cluster = LocalNodes(nodes)
        try:
            with connected(cluster.address):
                timed(partial(work, SIZES[0]), cluster.address, nodes)  # compiles, prepares the scenes
                waited[nodes] = statistics.median(
                    timed(partial(rest, REST), cluster.address, SHARDS_PER_PLACE * nodes)[0] for _ in range(rounds)
                )
                if nodes > num_processors():
                    continue
                seconds = []
                for _ in range(rounds):
                    one, found = timed(partial(work, SIZES[1]), cluster.address, SHARDS_PER_PLACE * nodes)
                    seconds.append(one)
                    if nodes == 1:
                        large += found
                        small += timed(partial(work, SIZES[0]), cluster.address, SHARDS_PER_PLACE)[1]
                worked[nodes] = statistics.median(seconds)
        finally:
            cluster.close()
    costs = fitted(waited, small, large, work_bytes)
    rows = [{"kind": 0, "nodes": n, "measured": waited[n], "model": costs.seconds(n, REST)} for n in waited]
    of_shard = costs.shard + costs.episode * SIZES[1]
    rows += [{"kind": 1, "nodes": n, "measured": worked[n], "model": costs.seconds(n, of_shard)} for n in worked]
    return costs, rows


def fitted(waited: dict[int, float], small: list[Shard], large: list[Shard], work_bytes: int) -> Costs:
    """Return the costs: from waiting shards on the first two counts of nodes, and from working shards on one node."""
    (one, first), (two, second) = list(waited.items())[:2]
    driver = max((second - first) / (SHARDS_PER_PLACE * (two - one)), 0.0)
    connect = first - SHARDS_PER_PLACE * (one * driver + REST)
    seconds = [statistics.median(shard.seconds for shard in found) for found in (small, large)]
    episode = (seconds[1] - seconds[0]) / (SIZES[1] - SIZES[0])
    return Costs(
        connect=max(connect, 0.0),
        driver=driver,
        shard=max(seconds[0] - episode * SIZES[0], 0.0),
        episode=episode,
        memory=max(shard.memory for shard in large),
        result_bytes=statistics.median(shard.result_bytes for shard in large) / SIZES[1],
        work_bytes=work_bytes,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4, 8], help="counts of local nodes, from 1 on")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions, whose median counts")
    parser.add_argument("--price", type=float, default=0.40, help="of an hour of a node")
    parser.add_argument("--json", action="store_true", help="print one line of JSON in place of the tables")
    options = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    costs, rows = measure(options.nodes, options.rounds)
    large = {nodes: costs.job(nodes, EPISODES) for nodes in (1, *LARGE)}
    errors = [abs(row["model"] / row["measured"] - 1) for row in rows]
    if options.json:
        print(json.dumps({"costs": asdict(costs), "checks": rows, "large": large}))
    else:
        print_tables(costs, rows, large, options.price)
    sys.exit(bool(np.max(errors) > BAR))


def print_tables(costs: Costs, rows: list[dict[str, float]], large: dict[int, dict[str, float]], price: float) -> None:
    """Print the constants, the checks and the model of large clusters."""
    console = Console(width=110)
    console.print(
        f"connect {costs.connect:.2f} s; driver {1e3 * costs.driver:.1f} ms, node {costs.shard:.2f} s for each shard; "
        f"{1e3 * costs.episode:.2f} ms of a node, {costs.result_bytes:.0f} bytes for each episode; "
        f"{costs.memory / 2**20:.0f} MiB for each process; load {os.getloadavg()[0]:.1f}"
    )
    table = Table(title=f"Measured and model (bar: {BAR:.0%})")
    for column in ("shards", "nodes", "measured, s", "model, s", "difference"):
        table.add_column(column, justify="right")
    for row in rows:
        kind = ("waiting", "working")[int(row["kind"])]
        cells = [kind, f"{row['nodes']:.0f}", f"{row['measured']:.2f}", f"{row['model']:.2f}"]
        table.add_row(*cells, f"{row['model'] / row['measured'] - 1:+.1%}")
    console.print(table)
    table = Table(title=f"Model: {EPISODES:,} episodes, {price:.2f} for an hour of a node")
    for column in ("nodes", "seconds", "node hours", "money", "network, MB", "driver, MB", "efficiency"):
        table.add_column(column, justify="right")
    for nodes, job in large.items():
        cells = [
            f"{nodes:,}",
            f"{job['seconds']:,.0f}",
            f"{job['node_hours']:,.2f}",
            f"{price * job['node_hours']:,.2f}",
        ]
        cells += [f"{job['network_bytes'] / 1e6:,.0f}", f"{job['driver_bytes'] / 1e6:,.0f}", f"{job['efficiency']:.0%}"]
        table.add_row(*cells)
    console.print(table)


if __name__ == "__main__":
    main()
