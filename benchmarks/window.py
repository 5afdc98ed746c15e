"""Slowdown of a batch that a window shows.

Run it with `python benchmarks/window.py` and the extra [view]. Rounds with and without viewers alternate, so that other
work on the machine hits both. The processor time that a frame takes in all threads is printed, too; on a busy machine
it says more. A viewer here is a browser only as far as the batch can tell: snapshots are taken,
encoded and queued for it.
"""

from __future__ import annotations

import sys
import time

import gymnasium
import numpy as np

import gym_batchnav  # noqa: F401
from gym_batchnav import viz
from gym_batchnav.viz.window.page import Page

NUM_ENVS = 1024
ROUNDS = 12
SECONDS = 2.0
BAR = 0.05


def rate(envs: gymnasium.vector.VectorEnv) -> tuple[float, float]:
    """Return the frames of a round per second, and per second of processor time of all threads."""
    actions = envs.action_space.sample()
    begun = time.perf_counter()
    worked = time.process_time()
    steps = 0
    while time.perf_counter() - begun < SECONDS:
        envs.step(actions)
        steps += 1
    frames = steps * envs.num_envs
    return frames / (time.perf_counter() - begun), frames / (time.process_time() - worked)


def main() -> None:
    """Print the speed with and without a viewer, and their ratio; fail if it is slower by more than 5%."""
    envs = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=NUM_ENVS, scenes="apartments", sensors=("depth",))
    envs.reset(seed=0)
    rate(envs)
    viewers = 0
    Page.num_viewers = property(lambda self: viewers)  # type: ignore[assignment, method-assign]
    found: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    with viz.serve(envs, port=0) as window:
        viewers = 1
        rate(envs)  # encodes the scene
        while window.page.shown is None:
            envs.step(envs.action_space.sample())
        for _ in range(ROUNDS):
            for viewers in (0, 1):
                found[viewers].append(rate(envs))
    envs.close()
    alone, watched = (np.array(found[viewers]) for viewers in (0, 1))
    slower, more = 1 - np.median(watched / alone, axis=0)
    print(f"{np.median(alone[:, 0]):,.0f} frames/s alone, {np.median(watched[:, 0]):,.0f} with a viewer")
    print(f"slower by {slower:.1%}, the bar is {BAR:.0%}; frames per second of processor time: fewer by {more:.1%}")
    sys.exit(slower > BAR)


if __name__ == "__main__":
    main()
