"""Training end to end, in a minute or two: frames/s of the preset ``cpu`` by part, and memory of a large batch.

python benchmarks/train.py [--seconds 30] [--preset cpu]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from gym_batchnav.cli.flags import train_extra
from gym_batchnav.library.rotation import SETTLE_STEPS

MIN_FPS = 1500
MAX_WAIT = 0.10
MAX_MEMORY = 6 * 2**30


def speed(preset: str, seconds: float) -> dict[str, Any]:
    """Return the figures of a short training with a preset."""
    with train_extra():
        from gym_batchnav.train.run import TrainingRun

    with tempfile.TemporaryDirectory() as folder:
        run = TrainingRun(Path(folder) / "run", {"preset": preset, "time_limit": seconds})
        run.train()
        figures = run.finish()
        run.close()
    return figures


def memory(num_envs: int, resident_scenes: int) -> dict[str, Any]:
    """Return the peak memory of this process, which trains until as many scenes have changed as are resident."""
    with train_extra():
        import torch

        from gym_batchnav.train.config import make_config
        from gym_batchnav.train.policy import make_policy
        from gym_batchnav.train.ppo import PPO

    preset = replace(make_config({}), resident_scenes=resident_scenes, rotate_every=SETTLE_STEPS)
    env = preset.make_env(num_envs=num_envs)
    ppo = PPO(env, make_policy(preset.policy, env.single_observation_space), preset.ppo)
    torch.set_num_threads(preset.threads or 1)
    while env.library.stats()["swaps"] < resident_scenes:
        ppo.iterate()
    env.close()
    return {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def apart(what: str, **options: Any) -> dict[str, Any]:
    """Return the figures of one of the functions above, run in a new process."""
    call = f"import json, runpy; print(json.dumps(runpy.run_path({__file__!r})[{what!r}](**{options!r})))"
    done = subprocess.run([sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def judged(value: float, bar: float, at_least: bool) -> str:
    return "reached" if (value >= bar if at_least else value <= bar) else "NOT reached"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--num-envs", type=int, default=1024, help="of the measurement of memory")
    parser.add_argument("--resident-scenes", type=int, default=16, help="of the measurement of memory")
    options = parser.parse_args()
    started = time.perf_counter()
    figures = apart("speed", preset=options.preset, seconds=options.seconds)
    total = sum(figures["parts"].values())
    wait = figures["parts"]["wait"] / total
    print(f"preset {options.preset}: {figures['frames']:,} frames in {figures['seconds']:.0f} s")
    for part, microseconds in figures["parts"].items():
        print(f"  {part:<9} {microseconds:7.1f} us a frame  {microseconds / total:6.1%}")
    print(f"  {figures['fps']:,.0f} frames/s; bar {MIN_FPS:,}: {judged(figures['fps'], MIN_FPS, True)}")
    print(f"  no part computes {wait:.1%} of the time; bar {MAX_WAIT:.0%}: {judged(wait, MAX_WAIT, False)}")
    peak = apart("memory", num_envs=options.num_envs, resident_scenes=options.resident_scenes)["peak_bytes"]
    print(
        f"N={options.num_envs:,}, K={options.resident_scenes}: peak {peak / 2**30:.2f} GiB; "
        f"bar {MAX_MEMORY / 2**30:.0f} GiB: {judged(peak, MAX_MEMORY, False)}"
    )
    print(f"measured in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
