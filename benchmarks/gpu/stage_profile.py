"""Stage profile: where a step's time goes, by OpenGL's timers, CUDA's events and profiler, and Python's functions."""

from __future__ import annotations

import cProfile
import gzip
import json
import pstats
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from figures import APARTMENTS, HOUSE, OUT, Report, device, wait

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.render.opengl import culling
from gym_batchnav.render.opengl.context import shared_context
from gym_batchnav.render.opengl.target import OpenGLTarget

# Stages of a batch on the device, as methods: the first holds the second, and timers do not nest, so each is timed in
# a run of its own.
TIMED: dict[str, tuple[type, str]] = {
    "draw, with culling": (OpenGLTarget, "_draw"),
    "culling alone": (culling.GpuCuller, "cull"),
    "gathering tiles": (OpenGLTarget, "_pack"),
    "copying pages": (OpenGLTarget, "_append"),
}
STEPS = 20
MOST_TRACE_BYTES = 15 * 2**20
LEAST_COPY = 1 << 16  # bytes; flags and actions are smaller


@contextmanager
def timed(owner: type, name: str) -> Iterator[list[float]]:
    """Milliseconds of the device for every call of a method within this block, by a query of elapsed time."""
    original: Callable[..., Any] = getattr(owner, name)
    queries: list[Any] = []
    milliseconds: list[float] = []

    def with_query(*arguments: Any) -> Any:
        query = shared_context().moderngl.query(time=True)
        with query:
            result = original(*arguments)
        queries.append(query)
        return result

    setattr(owner, name, with_query)
    try:
        yield milliseconds
        with shared_context():
            milliseconds += [query.elapsed / 1e6 for query in queries]
    finally:
        setattr(owner, name, original)


def make_env(scene: str, num_envs: int) -> tuple[BatchNavEnv, np.ndarray]:
    """A batch that has taken a few steps, and actions for it."""
    env = BatchNavEnv(
        num_envs, scenes=scene, renderer="opengl", reuse_buffers=True, obs_device=device(), autoreset_mode="same_step"
    )
    env.reset(seed=0)
    actions = env.shortest_path_actions()
    for _ in range(3):
        env.step(actions)
    wait()
    return env, actions


def device_stages(report: Report, scene: str, name: str, num_envs: int) -> None:
    """Milliseconds a batch of each stage on the device, beside those of the whole step."""
    env, actions = make_env(scene, num_envs)
    start = time.perf_counter()
    for _ in range(STEPS):
        env.step(actions)
    wait()
    whole = 1000 * (time.perf_counter() - start) / STEPS
    report.figure(f"{name}, a step, N={num_envs:,}", whole, "ms", note=f"{num_envs / whole * 1000:,.0f} frames/s")
    for what, (owner, method) in TIMED.items():
        with timed(owner, method) as milliseconds:
            for _ in range(STEPS):
                env.step(actions)
            wait()
        if milliseconds:
            spent = sum(milliseconds) / STEPS
            note = f"{len(milliseconds) // STEPS} calls, {spent / whole:.0%} of the step"
            report.figure(f"{name}, on the device: {what}", spent, "ms", note=note)
    halves(report, env, actions, name)
    env.close()


def halves(report: Report, env: BatchNavEnv, actions: np.ndarray, name: str) -> None:
    """Milliseconds of the processor until the batch is handed to the device, and of waiting for it after that."""
    sent = received = 0.0
    for _ in range(STEPS):
        start = time.perf_counter()
        env.send(actions)
        between = time.perf_counter()
        env.recv()
        wait()
        sent += between - start
        received += time.perf_counter() - between
    report.figure(f"{name}, send: the processor's part", 1000 * sent / STEPS, "ms")
    report.figure(f"{name}, recv: waiting for the device after it", 1000 * received / STEPS, "ms")


def functions(report: Report, scene: str, num_envs: int) -> None:
    """The functions in which the processor spends most of a step."""
    env, actions = make_env(scene, num_envs)
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(STEPS):
        env.step(actions)
    profile.disable()
    wait()
    env.close()
    own = {key: values[2] for key, values in pstats.Stats(profile).stats.items()}
    for (file, line, function), seconds in sorted(own.items(), key=lambda item: -item[1])[:8]:
        place = f"{Path(file).name}:{line}" if line else "built in"
        report.figure(f"processor: {function[:40]}", 1000 * seconds / STEPS, "ms", note=place)


def cuda_trace(report: Report, scene: str, num_envs: int) -> None:
    """Copies of the step by direction and size, from torch's profiler, whose trace is kept."""
    import torch

    env, actions = make_env(scene, num_envs)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.profiler.profile(activities=activities) as profile:
        start.record()
        for _ in range(STEPS):
            env.step(actions)
        end.record()
        torch.cuda.synchronize()
    report.figure("a step by CUDA's events", start.elapsed_time(end) / STEPS, "ms")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(file))
        report_copies(report, file, num_envs)
        with file.open("rb") as plain, gzip.open(OUT / "step_trace.json.gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
    if (OUT / "step_trace.json.gz").stat().st_size > MOST_TRACE_BYTES:
        (OUT / "step_trace.json.gz").unlink()
    env.close()


def report_copies(report: Report, trace: Path, num_envs: int) -> None:
    """Write how many copies to the host a step makes, and that none of them is of pictures."""
    events = json.loads(trace.read_text())["traceEvents"]
    copies = [event for event in events if event.get("cat") == "gpu_memcpy"]
    to_host = [event for event in copies if "DtoH" in event["name"]]
    sizes = [event.get("args", {}).get("bytes", 0) for event in to_host]
    report.figure("copies a step", len(copies) / STEPS, note=", ".join(sorted({event["name"] for event in copies})))
    large = [size for size in sizes if size >= LEAST_COPY]
    report.figure(
        "copies of pictures to the host", len(large), bar=0, at_most=True, note=f"N={num_envs:,}; sizes {sizes[:5]}"
    )


def main() -> None:
    report = Report("profile")
    num_envs = 16 if report.small else 4096
    scenes = [(APARTMENTS, "apartments"), *([(str(HOUSE), "house")] if HOUSE.is_file() else [])]
    for scene, name in scenes:
        with report.part(f"device's stages, {name}"):
            device_stages(report, scene, name, num_envs)
    with report.part("Python's functions"):
        functions(report, APARTMENTS, num_envs)
    if device() == "cuda":
        with report.part("CUDA's trace"):
            cuda_trace(report, APARTMENTS, num_envs)
    report.end()


if __name__ == "__main__":
    main()
