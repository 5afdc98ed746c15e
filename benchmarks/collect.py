"""The speed and memory of collection: frames/s per format relative to ``bench`` with the same sensors, in turns.

python benchmarks/collect.py                     # a few minutes
python benchmarks/collect.py --to zarr --turns 5
python benchmarks/collect.py --memory            # resident memory over 100,000 frames

Each turn measures steps alone and then a collection of RGB-D images of 64 x 64 pixels by the follower, whose paths, the
compression, the writing, the environments that idle at the end and the making of the dataset of all shards are part of
its time. It exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

import psutil

from gym_batchnav.bench import bench_step
from gym_batchnav.collect.collector import Collected, collect
from gym_batchnav.collect.reading import FORMATS

MIN_RATIO = 0.8
MAX_GROWTH = 1.1  # resident memory at the end relative to that after a fifth of the frames
SENSORS = ("rgb", "depth")
SCENES = "apartments"
HOMES = "procedural:0-7"  # for memory: apartments have 100 episodes each, which are too few
FRAMES_OF_HOMES = 8 * 40  # of an episode in each of them, at least


def gather(to: str, num_envs: int, episodes: int, scenes: str = SCENES, **keywords: object) -> Collected:
    folder = Path(tempfile.mkdtemp(prefix="collect"))
    try:
        return collect(folder, scenes, to=to, sensors=SENSORS, num_envs=num_envs, episodes_per_scene=episodes,
                       **keywords)  # type: ignore[arg-type]  # fmt: skip
    finally:
        shutil.rmtree(folder)


def measure(to: str, num_envs: int, episodes: int, turns: int, seconds: float) -> bool:
    gather(to, num_envs, 2)  # compiles and loads everything
    ratios = []
    for _ in range(turns):
        alone = bench_step(SCENES, num_envs, seconds, sensors=SENSORS)["fps"]
        found = gather(to, num_envs, episodes)
        ratios.append(found.num_frames / found.seconds / alone)
        print(f"  {to}: {alone:,.0f} alone, {found.num_frames / found.seconds:,.0f} collected", flush=True)
    ratio = median(ratios)
    print(
        f"{to}: {ratio:.3f} of the speed of steps alone, from {min(ratios):.3f} to {max(ratios):.3f} (bar {MIN_RATIO})"
    )
    return ratio >= MIN_RATIO


def measure_memory(to: str, num_envs: int, num_frames: int) -> bool:
    process = psutil.Process()
    seen: list[tuple[int, float]] = []
    frames = 0

    def progress(_: int, more: int) -> None:
        nonlocal frames
        frames += more
        if frames >= (len(seen) + 1) * num_frames / 20:
            seen.append((frames, process.memory_info().rss / 2**20))

    found = gather(to, num_envs, -(-num_frames // FRAMES_OF_HOMES), HOMES, progress=progress)
    for at, size in seen:
        print(f"  {to}: {at:,} frames, {size:,.0f} MiB resident")
    growth = seen[-1][1] / seen[len(seen) // 5][1]
    print(f"{to}: memory grew by a factor of {growth:.3f} over {found.num_frames:,} frames (bar {MAX_GROWTH}); "
          f"images took {found.peak_bytes / 2**20:,.0f} MiB")  # fmt: skip
    return growth <= MAX_GROWTH


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", nargs="*", default=[*FORMATS])
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--episodes", type=int, default=100, help="per scene and turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of steps alone per turn")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--frames", type=int, default=100_000, help="with --memory")
    given = parser.parse_args()
    results = [
        measure_memory(one, given.num_envs, given.frames) if given.memory
        else measure(one, given.num_envs, given.episodes, given.turns, given.seconds)
        for one in given.to
    ]  # fmt: skip
    sys.exit(0 if all(results) else 1)
