"""The time to start: import, --help, and a first script and the demo with empty caches.

python benchmarks/start.py             # a table
python benchmarks/start.py --check     # also exit with status 1 where a limit is exceeded twice
python benchmarks/start.py --warm      # without the starts with empty caches, which compile all kernels

The bars are goals for two free cores; the limits are for shared machines. They hold where the calibration
loop of one thread makes 500 Mop/s or more; a slower or busier machine may take longer, in proportion.

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

from gym_batchnav.system.calibration import FREE_MOPS, calibrate

FIRST_SCRIPT = """
import gymnasium, gym_batchnav
envs = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=16)
envs.reset(seed=0)
envs.step(envs.action_space.sample())
envs.close()
"""
IMPORT = """
import gymnasium, time
start = time.perf_counter()
import gym_batchnav
print(time.perf_counter() - start)
"""
DEMO = [sys.executable, "-m", "gym_batchnav", "demo", "--json"]
SHORT_DEMO = [*DEMO, "--seconds", "1"]


class Start(NamedTuple):
    """A way to start the package.

    Attributes:
        name: A title.
        command: Its command.
        bar: Seconds that it should take on two free cores.
        limit: Seconds beyond which ``--check`` fails.
        cold: Whether caches are empty.
        until: A word on standard error that ends the measurement; the end of the command by default.
    """

    name: str
    command: list[str]
    bar: float
    limit: float
    cold: bool = False
    until: str | None = None


STARTS = (
    Start("import gym_batchnav, beyond gymnasium", [sys.executable, "-c", IMPORT], 1.0, 1.0),
    Start("gym-batchnav --help", [sys.executable, "-m", "gym_batchnav", "--help"], 0.5, 1.0),
    Start("a script's first step, empty caches", [sys.executable, "-c", FIRST_SCRIPT], 30.0, 60.0, cold=True),
    Start("the demo's first frame, empty caches", SHORT_DEMO, 30.0, 60.0, cold=True, until="Ready after"),
    Start("the demo of ten seconds, warm caches", DEMO, 25.0, 25.0),
)


def seconds_of(start: Start) -> float:
    """Run one start in a new folder and return its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        if start.cold:
            env |= {"NUMBA_CACHE_DIR": f"{folder}/numba", "GYM_BATCHNAV_CACHE": f"{folder}/cache"}
        command = [*start.command, "--out", f"{folder}/demo"] if "demo" in start.command else start.command
        begun = time.perf_counter()
        with (
            open(f"{folder}/output", "w+") as output,
            subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.PIPE, text=True) as process,
        ):
            assert process.stderr is not None
            lines = [(time.perf_counter() - begun, line) for line in process.stderr]
            status = process.wait()
            whole = time.perf_counter() - begun
            output.seek(0)
            printed = output.read()
    if status:
        raise RuntimeError(f"{start.name} ended with {status}: {''.join(line for _, line in lines)}")
    if start.until is not None:
        return next(seconds for seconds, line in lines if start.until in line)
    return float(printed) if start.command[-1] == IMPORT else whole


def main() -> None:
    """Print one line per start."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with status 1 where a limit is exceeded")
    parser.add_argument("--warm", action="store_true", help="leave out the starts with empty caches")
    options = parser.parse_args()
    print("| start | seconds | bar | Mop/s | limit at this Mop/s |\n|---|---|---|---|---|")
    calibrate()  # compiles the loop
    exceeded = False
    for start in STARTS:
        if options.warm and start.cold:
            continue
        seconds = seconds_of(start)
        if seconds > start.bar or not start.cold:
            seconds = min(seconds, seconds_of(start))
        mops = calibrate()
        limit = start.limit * max(1.0, FREE_MOPS / mops)
        exceeded |= seconds > limit
        print(f"| {start.name} | {seconds:.2f} | {start.bar:g} | {mops:.0f} | {limit:.1f} |", flush=True)
    if options.check and exceeded:
        sys.exit("a start takes longer than its limit")


if __name__ == "__main__":
    main()
