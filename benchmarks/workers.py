"""Two workers that learn together, relative to one: what averaging gradients costs, and what hides it.

python benchmarks/workers.py [--seconds 4] [--rounds 5] [--policy small] [--json]

Each worker has one thread. "alone" is one worker while the other one waits. Every other row is two workers at once, and
its share is their frames/s of learning relative to twice those of one worker alone. "no averaging" shows what the cores
take from each other. The difference between it and a row below is the exposed cost of averaging: all that another order
of gradients (out-of-order backpropagation) could still gain. "after the backward pass" sends one bucket in the end.
Bar: 0.95. It exits with 1 where the bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

BAR = 0.95
NUM_WORKERS = 2
BUCKETS_MIB = (1, 4, 16)
NO_AVERAGING = "no averaging"
AFTER = "after the backward pass"


def work(policy: str, seconds: float, rounds: int) -> None:
    """Measure as one of the workers; worker 0 prints the medians as JSON."""
    from gym_batchnav.cli.extras import train_extra

    with train_extra():
        import torch

        from gym_batchnav.train.run.presets import PRESETS
        from gym_batchnav.train.run.workers import Workers

    torch.set_num_threads(1)
    workers = Workers.from_environment()
    env = replace(PRESETS["cpu"], resident_scenes=4).make_env()
    ways = make_ways(env, policy, workers)
    rates: dict[str, list[float]] = {name: [] for name in ("alone", *ways)}
    alone = ways[NO_AVERAGING]
    for name in ways:
        ways[name]()  # warm, and buckets find their order
    for _ in range(rounds):
        workers.barrier()
        if workers.rank == 0:
            rates["alone"].append(rate(alone, seconds, lambda ends: ends))
        for name, learn in ways.items():
            workers.barrier()
            # All workers stop after the same iteration.
            own = rate(learn, seconds, workers.broadcast)
            rates[name].append(sum(workers.gather(own)))
    env.close()
    if workers.rank == 0:
        shares = {
            name: statistics.median(
                both / one / NUM_WORKERS for both, one in zip(rates[name], rates["alone"], strict=True)
            )
            for name in ways
        }
        print(json.dumps({"alone": statistics.median(rates["alone"]), "shares": shares}))
    workers.close()


def make_ways(env: Any, policy: str, workers: Any) -> dict[str, Callable[[], int]]:
    """Return functions that learn once from the same rollout and return its number of frames."""
    import torch

    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.ppo import PPO
    from gym_batchnav.train.run import workers as module
    from gym_batchnav.train.run.presets import PRESETS
    from gym_batchnav.train.run.workers import Workers

    sizes = {AFTER: 10_000, **{f"buckets of {size} MiB": size for size in BUCKETS_MIB}}
    rollouts = []
    ways = {}

    def way(ppo: PPO) -> Callable[[], int]:
        def learn() -> int:
            ppo._learn(rollouts[0])
            return rollouts[0].rollout.num_frames

        return learn

    for name, size in {NO_AVERAGING: 0, **sizes}.items():
        torch.manual_seed(0)
        group = workers if size else Workers()
        with mock.patch.object(module, "BUCKET_MIB", size):
            ppo = PPO(env, make_policy(policy, env.single_observation_space), PRESETS["cpu"].ppo, workers=group)
        if not rollouts:
            rollouts.append(ppo._collect(None))
        ways[name] = way(ppo)
    return ways


def rate(learn: Callable[[], int], seconds: float, agree: Callable[[bool], bool]) -> float:
    """Return the frames/s of a function that is repeated until ``agree`` says that the time is over."""
    frames = 0
    begun = time.perf_counter()
    while True:
        frames += learn()
        if agree(time.perf_counter() - begun >= seconds):
            return frames / (time.perf_counter() - begun)


def main() -> None:
    """Start the workers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each way, of which the median counts")
    parser.add_argument("--policy", choices=("small", "blind", "paper"), default="small")
    parser.add_argument("--json", action="store_true", help="print one line of JSON in place of the table")
    options = parser.parse_args()
    if "RANK" in os.environ:
        work(options.policy, options.seconds, options.rounds)
        return
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(NUM_WORKERS)]
    command += [
        __file__,
        "--policy",
        options.policy,
        "--seconds",
        str(options.seconds),
        "--rounds",
        str(options.rounds),
    ]
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    default = next(name for name in figures["shares"] if name == f"buckets of {bucket()} MiB")
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"one worker alone learns from {figures['alone']:,.0f} frames/s")
        for name, share in figures["shares"].items():
            mark = "" if name != default else f"  the default; bar {BAR}: {'met' if share >= BAR else 'missed'}"
            print(f"{name:<25} {share:5.3f} of twice that{mark}")
    sys.exit(figures["shares"][default] < BAR)


def bucket() -> int:
    """Return the default size of buckets in MiB."""
    from gym_batchnav.train.run.workers import BUCKET_MIB

    return BUCKET_MIB


if __name__ == "__main__":
    main()
