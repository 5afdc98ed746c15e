"""Compare the speed of this checkout with that of another commit: rounds of both in turn, as ratios.

python benchmarks/compare.py HEAD~1                          # step, navigation, render, train and start
python benchmarks/compare.py main --only step --rounds 8
python benchmarks/compare.py main --only train --seconds 60 --rounds 3

The other commit is checked out into a temporary folder and run with the packages that are installed here. Each
measurement runs in a separate process with separate kernels. Run it on an idle machine: a single ratio varies by 10% or
more, the median of several less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCHES = {
    "step": "bench_step('apartments', 256, {seconds}, renderer='embree')",
    "navigation": "bench_step('apartments', 4096, {seconds}, sensors=())",
    "render": "bench_render('apartments', 256, {seconds}, renderer='embree')",
    # frames/s of the preset cpu, with processors that also prepare its scenes
    "train": "__import__('runpy').run_path('benchmarks/train.py')['speed']('cpu', {seconds})",
    # first frames of the demo per second of waiting, with empty caches
    "start": "(lambda this: {{'fps': 1 / this['seconds_of'](this['STARTS'][3])}})"
    "(__import__('runpy').run_path('benchmarks/start.py'))",
}


def frames_per_second(checkout: Path, caches: Path, bench: str, seconds: float) -> float:
    """Run one bench of a checkout; return its frames or agent steps per second."""
    env = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "NUMBA_CACHE_DIR": str(caches / "kernels"),
        "GYM_BATCHNAV_CACHE": str(caches / "scenes"),
    }
    program = f"from gym_batchnav.bench import *; print({bench.format(seconds=seconds)}['fps'])"
    run = subprocess.run([sys.executable, "-c", program], cwd=checkout, env=env, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{bench} failed in {checkout}: {run.stderr[-2000:]}")
    return float(run.stdout.splitlines()[-1])


def main() -> None:
    """Print a line for each round and a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--only", choices=BENCHES, nargs="+", default=list(BENCHES), help="benches to run")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each bench")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each bench")
    options = parser.parse_args()
    medians = {}
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", other, options.commit], cwd=ROOT, check=True)
        try:
            sides = ((other, Path(folder, "caches", "other")), (ROOT, Path(folder, "caches", "this")))
            for name in options.only:
                for checkout, caches in sides:
                    frames_per_second(checkout, caches, BENCHES[name], 0.5)  # compiles kernels
                ratios = []
                for _ in range(options.rounds):
                    before, after = (frames_per_second(*side, BENCHES[name], options.seconds) for side in sides)
                    ratios.append(after / before)
                    digits = 0 if before > 10 else 4
                    rates = f"{before:,.{digits}f} -> {after:,.{digits}f} per second"
                    print(f"{name}: {rates}, {ratios[-1]:.3f}", flush=True)
                medians[name] = statistics.median(ratios)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", other], cwd=ROOT, check=True)
    print(f"\n| bench | this checkout relative to {options.commit}, median of {options.rounds} |\n|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.3f} |")


if __name__ == "__main__":
    main()
