"""Trainings that are killed at random moments and resumed, compared to the bit with one that is not.

python benchmarks/killed.py --count 50 --seed 0
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

SETTINGS = {
    "scenes": ("procedural:0-7?area=28&closed_doors=0&triangles=8000",), "num_envs": 8, "frames": 20 * 8 * 32,
    "resident_scenes": 4, "rotate_every": 20, "num_episodes": 30,
}  # fmt: skip
# Checkpoints follow one another so closely that many kills fall into writing them.
CHILD = """
import json, sys
from pathlib import Path
from gym_batchnav.train import run as module
module.CHECKPOINT_SECONDS = module.LOG_SECONDS = 0.15
given = json.loads(sys.argv[2])
given["scenes"] = tuple(given["scenes"])
run = module.TrainingRun(Path(sys.argv[1]), given, resume=True, loggers=["jsonl"])
run.train()
run.finish()
run.close()
"""


def start(out: Path) -> subprocess.Popen[bytes]:
    """Start a training in a folder, or resume it."""
    return subprocess.Popen([sys.executable, "-c", CHILD, str(out), json.dumps(SETTINGS)], stderr=subprocess.DEVNULL)


def finish(out: Path) -> float:
    """Train to the end; return the seconds that it took."""
    begun = time.perf_counter()
    if start(out).wait() != 0:
        raise RuntimeError(f"the training in '{out}' failed")
    return time.perf_counter() - begun


def main() -> None:
    """Kill and resume trainings, and exit with an error if one ends in another policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="trainings")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        finish(whole)
        expected = load_file(whole / "policy.safetensors")
        limit = finish(Path(folder) / "again")  # what it takes with a filled cache
        for number in range(options.count):
            out = Path(folder) / str(number)
            moments = rng.uniform(0, limit, 2)
            for moment in moments:
                process = start(out)
                try:
                    process.wait(moment)
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
            finish(out)
            found = load_file(out / "policy.safetensors")
            same = found.keys() == expected.keys() and all(bool((found[one] == expected[one]).all()) for one in found)
            differ += not same
            print(f"{number}: killed after {moments.round(2)} s: {'the same' if same else 'DIFFERS'}", flush=True)
    print(f"{options.count - differ} of {options.count} end in the same policy")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
