"""Several agents in a world: how far bodies overlap in long runs, and what moving bodies cost when they are drawn.

python benchmarks/worlds.py                          # 1,024 worlds of 4 agents, 10,000 steps; about 3 minutes
python benchmarks/worlds.py --steps 100000           # the promise: no overlap deeper than 1 mm

Bars: no overlap deeper than 1 mm; with 4 agents per world at least 0.8 of the frames/s of as many views without bodies.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.system.progress import share_progress

DEEPEST = 1e-3  # metres
LEAST_RATE = 0.8


def overlaps(num_worlds: int, num_steps: int, seed: int) -> dict[str, float]:
    """Step worlds of four agents that walk at random, mostly ahead, and return the deepest overlap and the speed."""
    env = BatchNavEnv(4 * num_worlds, agents_per_world=4, sensors=(), max_episode_steps=500)
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    deepest = 0.0
    touches = 0
    actions = rng.choice(np.array([1, 1, 1, 2, 3]), (64, env.num_envs))
    begun = time.perf_counter()
    with share_progress("Stepping") as show:
        for step in range(num_steps):
            env.step(actions[rng.integers(64)])
            deepest = max(deepest, float(-env.task_state.worlds.gaps().min()))
            touches += int(env.worlds.state.touched.sum())
            if step % 100 == 0:
                show(step / num_steps)
    seconds = time.perf_counter() - begun
    env.close()
    return {
        "worlds": num_worlds,
        "steps": num_steps,
        "deepest_mm": 1000 * deepest,
        "touches": touches,
        "agent_steps_per_second": num_steps * 4 * num_worlds / seconds,
    }


def rate(agents_per_world: int, sensors: tuple[str, ...], num_envs: int, seconds: float) -> float:
    """Return the frames/s of a batch that follows shortest paths."""
    env = BatchNavEnv(
        num_envs, agents_per_world=agents_per_world, sensors=sensors, scenes="apartments", renderer="embree"
    )
    env.reset(seed=0)
    for _ in range(5):
        env.step(env.shortest_path_actions())
    num_steps = 0
    drawn = 0.0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        actions = env.shortest_path_actions()
        clock = time.perf_counter()
        env.step(actions)
        drawn += time.perf_counter() - clock
        num_steps += 1
    env.close()
    return num_steps * num_envs / drawn


def main() -> None:
    """Print the figures, and exit with status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--num-envs", type=int, default=256, help="views of the comparison of speed")
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each of its runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    figures: dict[str, float] = {"load_average": os.getloadavg()[0]}
    figures |= overlaps(options.worlds, options.steps, options.seed)
    for sensor in ("depth", "rgb"):
        ratios = []
        for _ in range(options.rounds):
            alone = rate(1, (sensor,), options.num_envs, options.seconds)
            ratios.append(rate(4, (sensor,), options.num_envs, options.seconds) / alone)
        figures[f"{sensor}_share"] = float(np.median(ratios))
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name}: {value:,.4g}")
    missed = figures["deepest_mm"] > 1000 * DEEPEST
    missed |= min(figures["depth_share"], figures["rgb_share"]) < LEAST_RATE
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
