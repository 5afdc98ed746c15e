"""How long the package takes to start: import, --help, and a first script and the demo with empty caches.

python benchmarks/start.py             # a table
python benchmarks/start.py --check     # also exit with status 1 where a bar is missed twice

Run it on a machine with nothing else to do. Each figure is the best of its tries, since other work only adds time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

FIRST_SCRIPT = """
import gymnasium, gym_batchnav
envs = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=4)
envs.reset(seed=0)
envs.step(envs.shortest_path_actions())
envs.close()
"""
IMPORT = """
import gymnasium, time
start = time.perf_counter()
import gym_batchnav
print(time.perf_counter() - start)
"""
DEMO = [sys.executable, "-m", "gym_batchnav.cli", "demo", "--json"]


class Start(NamedTuple):
    """A way to start: its name, its command, its bar in seconds, and whether caches are empty."""

    name: str
    command: list[str]
    bar: float
    cold: bool = False


STARTS = (
    Start("import gym_batchnav, beyond gymnasium", [sys.executable, "-c", IMPORT], 1.0),
    Start("gym-batchnav --help", [sys.executable, "-m", "gym_batchnav.cli", "--help"], 0.5),
    Start("a script's first step, empty caches", [sys.executable, "-c", FIRST_SCRIPT], 30.0, cold=True),
    Start("the demo of ten seconds, empty caches", DEMO, 30.0 + 10.0, cold=True),
    Start("the demo of ten seconds, warm caches", DEMO, 25.0),
)


def seconds_of(start: Start) -> float:
    """Run one start in a fresh folder; return its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        if start.cold:
            env |= {"NUMBA_CACHE_DIR": f"{folder}/numba", "GYM_BATCHNAV_CACHE": f"{folder}/cache"}
        command = [*start.command, "--out", f"{folder}/demo"] if "demo" in start.command else start.command
        begun = time.perf_counter()
        output = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        whole = time.perf_counter() - begun
    return float(output) if start.command[-1] == IMPORT else whole


def main() -> None:
    """Print a line for each start."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with status 1 where a bar is missed")
    options = parser.parse_args()
    print("| start | seconds | bar |\n|---|---|---|")
    missed = False
    for start in STARTS:
        seconds = seconds_of(start)
        if seconds > start.bar or not start.cold:
            seconds = min(seconds, seconds_of(start))
        missed |= seconds > start.bar
        print(f"| {start.name} | {seconds:.2f} | {start.bar:g} |", flush=True)
    if options.check and missed:
        sys.exit("a start takes longer than its bar")


if __name__ == "__main__":
    main()
