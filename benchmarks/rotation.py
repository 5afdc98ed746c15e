"""The cost of rotating scenes: stepping, memory and start-up.

python benchmarks/rotation.py                       # all parts
python benchmarks/rotation.py --only throughput     # throughput, busy, memory, ready, slot, sharing

Ends with exit code 1 if a figure misses its bar.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from bars import Row

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.geometry import view_matrices
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import scene_sources

DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared"))


def steps(env: BatchNavEnv, count: int) -> np.ndarray:
    """Return the milliseconds of each of ``count`` steps along shortest paths, without finding the actions."""
    times = np.empty(count)
    for index in range(count):
        actions = env.shortest_path_actions()
        start = time.perf_counter()
        env.step(actions)
        times[index] = 1e3 * (time.perf_counter() - start)
    return times


def throughput(seconds: float) -> list[Row]:
    """Compare stepping with and without rotation, in turns of ``seconds``: 64 equal scenes, K=8, N=256, depth."""
    bars = []
    for rotate_every in (250, 50):
        still = BatchNavEnv(256, scenes="procedural:0-7?area=80")
        turning = BatchNavEnv(256, scenes=Scenes("procedural:0-63?area=80", resident=8, rotate_every=rotate_every))
        for env in (still, turning):
            env.reset(seed=0)
            steps(env, 20)
        off = []
        on = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            off.append(steps(still, 50))
            on.append(steps(turning, 50))
        ratio = np.mean(off) / np.mean(on)
        late = [float(np.percentile(np.concatenate(times), 99)) for times in (off, on)]
        print(
            f"rotation every {rotate_every} steps: {256e3 / np.mean(on):,.0f} frames/s against "
            f"{256e3 / np.mean(off):,.0f} without, {ratio:.2f} of it; p99 of a step {late[1]:.1f} ms "
            f"against {late[0]:.1f}, {late[1] / late[0]:.2f} times; {turning.library.stats()['swaps']} swaps"
        )
        bars.append(Row(f"rotation every {rotate_every} steps, frames/s against none", ratio, 0.85))
        bars.append(Row(f"rotation every {rotate_every} steps, p99 of a step", late[1] / late[0], 2, at_most=True))
        still.close()
        turning.close()
    return bars


def busy(seconds: float) -> list[Row]:
    """Measure the steps per change of scene, relative to the requested steps, with two busy processes."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        env = BatchNavEnv(4, scenes=Scenes(resident=2, rotate_every=50), sensors=(), max_episode_steps=100)
        env.reset(seed=0)
        steps(env, 1000)  # so that the first changes, which find their priority, do not count
        begun = env.library.stats()["swaps"]
        count = 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            steps(env, 50)
            count += 50
        stats = env.library.stats()
        env.close()
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    changes = stats["swaps"] - begun
    asked = stats["steps_per_change_requested"]
    ratio = count / max(changes, 1) / asked
    print(f"with two busy processes: {changes} changes in {count:,} steps, {ratio:.2f} times the {asked} asked for")
    return [Row("with two busy processes, steps per change against those asked for", ratio, 4, at_most=True)]


def memory(swaps: int = 200) -> list[Row]:
    """Measure the resident memory after every swap except the first tenth."""
    env = BatchNavEnv(
        64,
        scenes=Scenes("procedural:0-63", resident=8, rotate_every=1, deterministic_rotation=True),
        max_episode_steps=60,
    )
    env.reset(seed=0)
    process = psutil.Process()
    sizes = []
    done = 0
    while done < swaps:
        steps(env, 1)
        if env.library.stats()["swaps"] > done:
            done = env.library.stats()["swaps"]
            sizes.append(process.memory_info().rss / 2**20)
    env.close()
    later = np.array(sizes[len(sizes) // 10 :])
    quarter = len(later) // 4
    low = later.min()
    middle = float(np.median(later))
    high = later.max()
    print(
        f"{done} swaps: {low:,.0f} MiB at least, {middle:,.0f} in the median, {high:,.0f} at most; "
        f"{later[:quarter].mean():,.0f} at first, {later[-quarter:].mean():,.0f} at the end"
    )
    return [
        Row(
            "resident memory, % off its median", 100 * float(max(high - middle, middle - low)) / middle, 5, at_most=True
        )
    ]


def ready() -> list[Row]:
    """Measure the time to the first observation with 1,000 scenes listed, with an empty cache and again."""
    with tempfile.TemporaryDirectory() as cache:
        for what in ("cache not filled", "cache filled"):
            start = time.perf_counter()
            env = BatchNavEnv(256, scenes=Scenes("procedural:0-999", cache_dir=cache))
            env.reset(seed=0)
            seconds = time.perf_counter() - start
            print(f"1,000 scenes listed, {what}: ready in {seconds:.2f} s")
            env.close()
    return [Row("1,000 scenes listed, cache filled, seconds until ready", seconds, 5, at_most=True)]


def slot() -> list[Row]:
    """Measure the time to load a cached scene of 150,000 triangles into a slot."""
    bars = []
    file = DATA / "scenes/aws_small_house/aws_small_house.glb"
    (source,) = scene_sources(file, DiskCache())
    for sensors in (("depth",), ("depth", "rgb")):
        library = SceneLibrary([source], num_spare_slots=1)
        env = BatchNavEnv(8, library=library, sensors=sensors)
        env.reset(seed=0)
        env.step(np.ones(8, np.int64))
        agents = env.simulator.agents
        times = []
        views = view_matrices(agents.position, agents.heading, env.cameras.rig.first.eye_height)
        target = env.cameras.renderer.target(env.cameras.rig.first, sensors, num_views=8)
        for _ in range(5):
            library.put(1, None)
            target.render(agents.slot, views)
            start = time.perf_counter()
            library.put(1, source.load())
            target.render(np.ones_like(agents.slot), views)
            times.append(time.perf_counter() - start)
        what = f"{file.name}, {' + '.join(sensors)}: seconds from the cache into a slot and drawn"
        bars.append(Row(what, min(times), 0.5, at_most=True))
        target.close()
        env.close()
    return bars


def sharing() -> list[Row]:
    """Compare N=1,024 agents in 32 scenes with the same number in one."""
    shared = BatchNavEnv(1024, scenes=Scenes("procedural:0-31", resident=32))
    shared.reset(seed=0)
    steps(shared, 5)
    many = []
    one = []
    for seed in range(32):  # the frames of 32 scenes are those of each of them
        alone = BatchNavEnv(1024, scenes=f"procedural:{seed}")
        alone.reset(seed=0)
        one.append(steps(alone, 6)[2:])
        many.append(steps(shared, 6)[2:])
        alone.close()
    print(
        f"N=1,024 in K=32: {1024e3 / np.mean(many):,.0f} frames/s, in K=1 (each of the 32 in turn): "
        f"{1024e3 / np.mean(one):,.0f}"
    )
    shared.close()
    return [Row("N=1,024 in K=32, frames/s against K=1", float(np.mean(one) / np.mean(many)), 0.75)]


def main() -> None:
    parts: dict[str, Callable[[], list[Row]]] = {
        "throughput": lambda: throughput(arguments.seconds),
        "busy": lambda: busy(arguments.seconds),
        "memory": memory,
        "ready": ready,
        "slot": slot,
        "sharing": sharing,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=parts, nargs="+", default=list(parts))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each figure of throughput")
    arguments = parser.parse_args()
    bars = []
    for name in arguments.only:
        found = parts[name]()
        for bar in found:
            print(bar, flush=True)
        bars += found
    if not all(bar.met for bar in bars):
        sys.exit(1)


if __name__ == "__main__":
    main()
