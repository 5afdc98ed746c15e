"""What maps cost: frames/s of steps with the sensor MapPath, relative to those without it.

python benchmarks/mapping.py [--num-envs 256] [--scenes apartments] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from gym_batchnav import BatchNavEnv, Camera
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.task.api import Sensor

STEPS = 60


def frames_per_second(env: BatchNavEnv) -> float:
    """Step a batch along shortest paths and return its frames/s, without the time in which the paths are found."""
    spent = 0.0
    for _ in range(STEPS):
        actions = env.shortest_path_actions()
        begun = time.perf_counter()
        env.step(actions)
        spent += time.perf_counter() - begun
    return env.num_envs * STEPS / spent


def main() -> None:
    """Print medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--scenes", nargs="*", default=["apartments"])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    batches = []
    for sensors in ((), (MapPath(),)):
        own: tuple[str | Sensor, ...] = ("depth", *sensors)
        library = batches[0].library if batches else None
        scenes = None if batches else given.scenes
        env = BatchNavEnv(given.num_envs, scenes=scenes, library=library, sensors=own, camera=Camera(32, 32), buffers=2)
        env.reset(seed=0)
        frames_per_second(env)
        batches.append(env)
    rates = np.array([[frames_per_second(env) for env in batches] for _ in range(given.rounds)])
    without, mapped = np.median(rates, axis=0)
    ratios = rates[:, 1] / rates[:, 0]
    cost = 1e6 * (1 / mapped - 1 / without)
    print(f"without: {without:,.0f} frames/s; with: {mapped:,.0f}; a map takes {cost:.1f} microseconds per frame")
    print(f"ratio: {np.median(ratios):.3f} ({ratios.min():.3f} to {ratios.max():.3f})")
    for env in batches:
        env.close()


if __name__ == "__main__":
    main()
