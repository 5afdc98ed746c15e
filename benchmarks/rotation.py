"""Scenes that rotate: what it costs stepping, memory and start-up.

python benchmarks/rotation.py                       # all parts
python benchmarks/rotation.py --only throughput     # throughput, memory, ready, slot, sharing
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from gym_batchnav.env import BatchNavEnv
from gym_batchnav.scene.cache import DiskCache
from gym_batchnav.scene.sources import scene_sources

DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared"))


def steps(env: BatchNavEnv, count: int) -> np.ndarray:
    """Milliseconds of each of ``count`` steps along shortest paths; finding the actions is not counted."""
    times = np.empty(count)
    for index in range(count):
        actions = env.shortest_path_actions()
        start = time.perf_counter()
        env.step(actions)
        times[index] = 1e3 * (time.perf_counter() - start)
    return times


def throughput(seconds: float) -> None:
    """64 scenes, K=8, N=256, depth: rotation on against off, in turns; each figure takes ``seconds``."""
    for rotate_every in (250, 50):
        still = BatchNavEnv(256, scenes="procedural:0-7")
        turning = BatchNavEnv(256, scenes="procedural:0-63", resident_scenes=8, rotate_every=rotate_every)
        for env in (still, turning):
            env.reset(seed=0)
            steps(env, 20)
        off, on, end = [], [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            off.append(steps(still, 50))
            on.append(steps(turning, 50))
        ratio = np.mean(off) / np.mean(on)
        late = [float(np.percentile(np.concatenate(times), 99)) for times in (off, on)]
        print(
            f"rotation every {rotate_every} steps: {256e3 / np.mean(on):,.0f} frames/s against "
            f"{256e3 / np.mean(off):,.0f} without, {ratio:.2f} of it (bar 0.85); p99 of a step {late[1]:.1f} ms against "
            f"{late[0]:.1f}, {late[1] / late[0]:.2f} times (bar 2); {turning.library.stats()['swaps']} swaps"
        )
        still.close()
        turning.close()


def memory(swaps: int = 200) -> None:
    """Resident memory while scenes are swapped."""
    env = BatchNavEnv(
        64, scenes="procedural:0-63", resident_scenes=8, rotate_every=1, max_episode_steps=60,
        deterministic_rotation=True,
    )  # fmt: skip
    env.reset(seed=0)
    process, sizes = psutil.Process(), []
    done = 0
    while done < swaps:
        steps(env, 1)
        if env.library.stats()["swaps"] > done:
            done = env.library.stats()["swaps"]
            sizes.append(process.memory_info().rss / 2**20)
    later = np.array(sizes[swaps // 10 :])
    print(
        f"{done} swaps: {later[: len(later) // 4].mean():,.0f} MiB at first, {later[-len(later) // 4 :].mean():,.0f} at "
        f"the end, between {later.min():,.0f} and {later.max():,.0f} (bar: 5% about their middle)"
    )
    env.close()


def ready() -> None:
    """1,000 scenes listed: until the first observation, the second time."""
    for what in ("cache not filled", "cache filled"):
        start = time.perf_counter()
        env = BatchNavEnv(256, scenes="procedural:0-999")
        env.reset(seed=0)
        print(f"1,000 scenes listed, {what}: ready in {time.perf_counter() - start:.2f} s (bar 5 s when filled)")
        env.close()


def slot() -> None:
    """A cached scene of 150,000 triangles into a slot."""
    file = DATA / "scenes/aws_small_house/aws_small_house.glb"
    cache = DiskCache()
    for sensors in (("depth",), ("depth", "rgb")):
        env = BatchNavEnv(8, scenes=file, sensors=sensors)
        env.reset(seed=0)
        (source,) = scene_sources(file, cache)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            env.library.put(0, source.load())
            env.step(env.action_space.sample() * 0 + 1)
            times.append(time.perf_counter() - start)
        print(f"{file.name}, {' + '.join(sensors)}: cached, in a slot and drawn in {min(times):.2f} s (bar 0.5 s)")
        env.close()


def sharing() -> None:
    """N=1,024 agents in 32 scenes against one."""
    envs = [BatchNavEnv(1024, scenes="procedural:0-31", resident_scenes=32), BatchNavEnv(1024, scenes="procedural:0")]
    # The frames of 32 scenes are those of each of them: the one scene is each in turn.
    for env in envs:
        env.reset(seed=0)
        steps(env, 5)
    (source,) = scene_sources("procedural:0")
    many, one = [], []
    for seed in range(32):
        (source,) = scene_sources(f"procedural:{seed}")
        envs[1].library.put(0, source.load())
        envs[1].reset(seed=0)
        one.append(steps(envs[1], 6)[2:])
        many.append(steps(envs[0], 6)[2:])
    print(
        f"N=1,024 in K=32: {1024e3 / np.mean(many):,.0f} frames/s, in K=1 (each of the 32 in turn): "
        f"{1024e3 / np.mean(one):,.0f}; {np.mean(one) / np.mean(many):.2f} of it (bar: within 25%)"
    )
    for env in envs:
        env.close()


def main() -> None:
    parts: dict[str, Callable[[], None]] = {
        "throughput": lambda: throughput(arguments.seconds), "memory": memory, "ready": ready, "slot": slot, "sharing": sharing,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=parts, nargs="+", default=list(parts))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each figure of throughput")
    arguments = parser.parse_args()
    for name in arguments.only:
        parts[name]()


if __name__ == "__main__":
    main()
