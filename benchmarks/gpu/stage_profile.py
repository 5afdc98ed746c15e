"""Stage profile: the time of a step by OpenGL's timers, CUDA's events, torch's profiler and Python's profiler."""

from __future__ import annotations

import cProfile
import gzip
import json
import pstats
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from figures import APARTMENTS, OUT, Report, device, named_scenes, wait

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.render.opengl import culling
from gym_batchnav.render.opengl.context import shared_context
from gym_batchnav.render.opengl.target import OpenGLTarget

# Methods whose work on the device is timed. The first one calls the second, and timers cannot be nested, so each is
# timed in a separate run.
TIMED: dict[str, tuple[type, str]] = {
    "draw, with culling": (OpenGLTarget, "_draw"),
    "culling alone": (culling.GpuCuller, "cull"),
    "gathering tiles": (OpenGLTarget, "_pack"),
    "copying pages": (OpenGLTarget, "_append"),
}
STEPS = 20
MAX_TRACE_BYTES = 15 * 2**20
MIN_COPY = 1 << 16  # bytes; flags and actions are smaller


@contextmanager
def timed(owner: type, name: str) -> Iterator[list[float]]:
    """Provide a list that has the device's milliseconds of every call of a method in this block, after its end."""
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


@contextmanager
def warm_env(scene: str, num_envs: int) -> Iterator[tuple[BatchNavEnv, np.ndarray]]:
    """Provide a batch after a few steps and actions for it, and close the batch at the end."""
    env = BatchNavEnv(
        num_envs, scenes=scene, renderer="opengl", reuse_buffers=True, obs_device=device(), autoreset_mode="same_step"
    )
    with closing(env):
        env.reset(seed=0)
        actions = env.shortest_path_actions()
        for _ in range(3):
            env.step(actions)
        wait()
        yield env, actions


def device_stages(report: Report, env: BatchNavEnv, actions: np.ndarray, name: str) -> None:
    """Report milliseconds of the whole step and of each of its stages on the device."""
    num_envs = env.num_envs
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


def halves(report: Report, env: BatchNavEnv, actions: np.ndarray, name: str) -> None:
    """Report milliseconds until the processor has submitted a batch, and of waiting for the device after that."""
    sent = 0.0
    received = 0.0
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


def functions(report: Report, env: BatchNavEnv, actions: np.ndarray) -> None:
    """Report the Python functions that take most of the processor's time in a step."""
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(STEPS):
        env.step(actions)
    profile.disable()
    wait()
    own = {key: values[2] for key, values in pstats.Stats(profile).stats.items()}
    for (file, line, function), seconds in sorted(own.items(), key=lambda item: -item[1])[:8]:
        place = f"{Path(file).name}:{line}" if line else "built in"
        report.figure(f"processor: {function[:40]}", 1000 * seconds / STEPS, "ms", note=place)


def cuda_trace(report: Report, env: BatchNavEnv, actions: np.ndarray) -> None:
    """Report the copies of a step from torch's profiler, and save its trace."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
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
        report_copies(report, file, env.num_envs)
        with file.open("rb") as plain, gzip.open(OUT / "step_trace.json.gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
    if (OUT / "step_trace.json.gz").stat().st_size > MAX_TRACE_BYTES:
        (OUT / "step_trace.json.gz").unlink()


def report_copies(report: Report, trace: Path, num_envs: int) -> None:
    """Report the number of copies in a step, and check that no pictures are copied to the host."""
    events = json.loads(trace.read_text())["traceEvents"]
    copies = [event for event in events if event.get("cat") == "gpu_memcpy"]
    to_host = [event for event in copies if "DtoH" in event["name"]]
    sizes = [event.get("args", {}).get("bytes", 0) for event in to_host]
    report.figure("copies a step", len(copies) / STEPS, note=", ".join(sorted({event["name"] for event in copies})))
    large = [size for size in sizes if size >= MIN_COPY]
    report.figure(
        "copies of pictures to the host", len(large), bar=0, at_most=True, note=f"N={num_envs:,}; sizes {sizes[:5]}"
    )


def main() -> None:
    report = Report("profile")
    num_envs = 16 if report.small else 4096
    for scene, name in named_scenes():
        with report.part(f"device's stages, {name}"), warm_env(scene, num_envs) as (env, actions):
            device_stages(report, env, actions, name)
    with report.part("Python's functions"), warm_env(APARTMENTS, num_envs) as (env, actions):
        functions(report, env, actions)
    if device() == "cuda":
        with report.part("CUDA's trace"), warm_env(APARTMENTS, num_envs) as (env, actions):
            cuda_trace(report, env, actions)
    report.end()


if __name__ == "__main__":
    main()
