"""The cost of adapters to RL libraries: frames/s of a batch alone and through each adapter, in turns, in one process.

python benchmarks/adapters.py                     # those whose libraries are installed
python benchmarks/adapters.py sb3 --seconds 10

64 x 64 depth of the shipped apartments, drawn by Embree. Agents act at random and stop one time in a hundred.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.flat import SCAN_CAMERA, ImageObservation, ScanObservation

ROUND = 10  # steps of the one, then of the other
STOP_SHARE = 0.01

Step = Callable[[np.ndarray], Any]  # acts in every environment, [N] integers


def sb3(batch: BatchNavEnv) -> Step:
    from gym_batchnav.adapters.sb3 import SB3VecEnv

    env = SB3VecEnv(batch)
    env.reset()
    return env.step


def scan(batch: BatchNavEnv) -> Step:
    env = ScanObservation(batch)
    env.reset()
    return env.step


def image(batch: BatchNavEnv) -> Step:
    env = ImageObservation(batch)
    env.reset()
    return env.step


def skrl(batch: BatchNavEnv) -> Step:
    import torch

    from gym_batchnav.adapters.skrl import SkrlEnv

    env = SkrlEnv(batch)
    env.reset()
    return lambda actions: env.step(torch.from_numpy(actions)[:, None])


def tianshou(batch: BatchNavEnv) -> Step:
    from gym_batchnav.adapters.tianshou import TianshouVecEnv

    env = TianshouVecEnv(batch)
    env.reset()

    def step(actions: np.ndarray) -> None:
        """Reset what has ended, as a Collector does."""
        _, _, terminated, truncated, _ = env.step(actions)
        ended = np.nonzero(terminated | truncated)[0]
        if len(ended) > 0:
            env.reset(ended)

    return step


def rl_games(batch: BatchNavEnv) -> Step:
    import torch

    from gym_batchnav.adapters.rl_games import RLGamesVecEnv

    env = RLGamesVecEnv(batch)
    env.reset()
    return lambda actions: env.step(torch.from_numpy(actions))


def pufferlib(batch: BatchNavEnv) -> Step:
    from gym_batchnav.adapters.pufferlib import PufferVecEnv

    env = PufferVecEnv(batch)
    env.reset()
    return env.step


def rllib(batch: BatchNavEnv) -> Step:
    from gym_batchnav.adapters.rllib import RLlibEnv

    env = DictInfoToList(RLlibEnv(ScanObservation(batch)))  # env runners want the infos of each environment by itself
    env.reset()
    return env.step


def torchrl(batch: BatchNavEnv) -> Step:
    import torch
    from torchrl.envs import GymWrapper

    env = GymWrapper(batch, categorical_action_encoding=True)
    now = env.reset()

    def step(actions: np.ndarray) -> None:
        """Reset what has ended, as a Collector does."""
        nonlocal now
        _, now = env.step_and_maybe_reset(now.set("action", torch.from_numpy(actions)))

    return step


class Adapter(NamedTuple):
    """An adapter: the module of its library, the keywords of its batch, and what wraps and resets it."""

    module: str
    keywords: dict[str, Any]
    wrap: Callable[[BatchNavEnv], Step]


SAME_STEP = {"autoreset_mode": "same_step"}
ADAPTERS = {
    "scan": Adapter("gymnasium", {**SAME_STEP, "camera": SCAN_CAMERA, "buffers": 2}, scan),
    "image": Adapter("gymnasium", {**SAME_STEP, "buffers": 2}, image),
    "sb3": Adapter("stable_baselines3", SAME_STEP, sb3),
    "skrl": Adapter("skrl", SAME_STEP, skrl),
    "tianshou": Adapter("tianshou", SAME_STEP, tianshou),
    "rl_games": Adapter("rl_games", SAME_STEP, rl_games),
    "pufferlib": Adapter("pufferlib", SAME_STEP, pufferlib),
    "rllib": Adapter("gymnasium", {"camera": SCAN_CAMERA, "buffers": 2}, rllib),
    "torchrl": Adapter("torchrl", {"autoreset_mode": "disabled"}, torchrl),
}


def alone(batch: BatchNavEnv) -> Step:
    """Return the step of the batch alone, with resets if it does not begin episodes itself."""
    batch.reset(seed=0)

    def step(actions: np.ndarray) -> None:
        _, _, terminated, truncated, _ = batch.step(actions)
        ended = terminated | truncated
        if batch.autoreset_mode is AutoresetMode.DISABLED and ended.any():
            batch.reset(options={"reset_mask": ended})

    return step


def seconds_of(step: Step, actions: np.ndarray) -> float:
    """Return the seconds of as many steps as there are rows of actions [T, N]."""
    start = time.perf_counter()
    for row in actions:
        step(row)
    return time.perf_counter() - start


def compare(adapter: Adapter, num_envs: int, seconds: float) -> tuple[float, float]:
    """Return the frames/s of a batch alone and of an equal batch through the adapter, in turns."""
    batches = [BatchNavEnv(num_envs, renderer="embree", **adapter.keywords) for _ in range(2)]
    steps = (alone(batches[0]), adapter.wrap(batches[1]))
    rng = np.random.default_rng(0)
    moves = (1 - STOP_SHARE) / 3
    spent: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(spent[0]) < 3:
        actions = rng.choice(4, size=(ROUND, num_envs), p=[STOP_SHARE, moves, moves, moves])
        for step, times in zip(steps, spent, strict=True):
            times.append(seconds_of(step, actions))
    for batch in batches:
        batch.close()
    # The first round compiles; the median leaves out what other work on the machine took.
    bare, through = (ROUND * num_envs / float(np.median(times[1:])) for times in spent)
    return bare, through


def main() -> None:
    """Print one line per adapter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(ADAPTERS))
    parser.add_argument("--num-envs", type=int, default=256, help="environments that step together (256)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each of them (10)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ADAPTERS):
        parser.error(f"no adapter {', '.join(sorted(unknown))}: choose from {', '.join(ADAPTERS)}")
    print("| adapter | N | the batch, frames/s | through it, frames/s | ratio |\n|---|---|---|---|---|")
    for name in options.names or ADAPTERS:
        if find_spec(ADAPTERS[name].module) is None:
            print(f"| {name} | | {ADAPTERS[name].module} is not installed | | |")
            continue
        bare, through = compare(ADAPTERS[name], options.num_envs, options.seconds)
        print(f"| {name} | {options.num_envs} | {bare:,.0f} | {through:,.0f} | {through / bare:.2f} |", flush=True)


if __name__ == "__main__":
    main()
