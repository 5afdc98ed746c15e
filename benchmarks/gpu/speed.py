"""Stage speed: renderers alone, their memory, whole steps in one batch and in two halves, and training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
from kit import DATA, Report

from gym_batchnav.bench import navigable_views
from gym_batchnav.doctor import cuda_unavailable_reason
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.render.api import make_renderer

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # the same as in gym-batchnav train

DEVICE = "cpu" if cuda_unavailable_reason() else "cuda"
RENDERERS = ("warp", "opengl", "embree") if DEVICE == "cuda" else ("opengl", "embree")
APARTMENTS = "apartments"
HOUSE = DATA / "scenes" / "aws_small_house" / "aws_small_house.glb"
SCENES = [(APARTMENTS, "apartments"), *([(str(HOUSE), "house")] if HOUSE.is_file() else [])]
RENDER_BARS = {("depth",): 150_000, ("rgb",): 60_000}  # frames/s of Warp
STEP_BAR = 60_000
TRAINING_BARS = {"small": 100_000, "paper": 60_000}
RUNS = (("small", 4096), ("paper", 2048), ("paper", 4096))  # policy and number of agents; most informative first
SMALL_RUNS = (("small", 16),)
TAPE_STEPS = 60
SYNC_EVERY = 8  # batches that may be queued on the GPU while frames are counted


def wait() -> None:
    """Wait until the GPU is idle."""
    if DEVICE == "cuda":
        import torch

        torch.cuda.synchronize()


def rate(work: Callable[[], int], seconds: float, slices: int = 5) -> tuple[float, str]:
    """Return frames/s of ``work``, which returns its number of frames: the median of the slices, and their spread."""
    for _ in range(3):
        work()
    rates = []
    for _ in range(slices):
        wait()
        start = time.perf_counter()
        frames = 0
        batches = 0
        while batches == 0 or time.perf_counter() - start < seconds / slices:
            frames += work()
            batches += 1
            if batches % SYNC_EVERY == 0:
                wait()
        wait()
        rates.append(frames / (time.perf_counter() - start))
    median = float(np.median(rates))
    return median, f"spread {np.ptp(rates) / median:.0%}, on {DEVICE}"


def rendering(report: Report, renderer: str, scene: str, name: str) -> None:
    """Report frames/s of a renderer alone by sensor, size and number of views, and its memory."""
    library = SceneLibrary(scene_sources(scene))
    device = "cuda" if renderer == "warp" else "cpu"
    with closing(make_renderer(renderer, library)) as drawer:
        for (sensors, bar), side in zip(RENDER_BARS.items(), (64, 128), strict=True):
            for num_views in (16, 64) if report.small else (1024, 4096, 16384):
                camera = Camera(side, side)
                slots, views = navigable_views(library, num_views, camera.eye_height)
                with closing(drawer.target(camera, sensors, num_views, device=device)) as target:

                    def draw(target: Any = target, slots: Any = slots, views: Any = views) -> int:
                        target.render(slots, views)
                        return len(views)

                    figure, note = rate(draw, 0.5 if report.small else 1.5)
                what = f"{renderer}, {name}, {sensors[0]} {side}x{side}, N={num_views:,}"
                asked = bar if renderer == "warp" and not report.small else None
                report.figure(what, figure, "frames/s", bar=asked, note=note)
    if DEVICE == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info()
        report.figure(f"{renderer}, {name}, memory in use at the end", (total - free) / 2**30, "GiB", 8, at_most=True)


@contextmanager
def open_batches(scene: str, num_envs: int, parts: int, **keywords: Any) -> Iterator[list[BatchNavEnv]]:
    """Provide ``num_envs`` agents in batches that share scenes and a renderer, and close them at the end."""
    keywords = {"autoreset_mode": "same_step", "buffers": 2, "obs_device": DEVICE, **keywords}
    with ExitStack() as stack:
        first = stack.enter_context(closing(BatchNavEnv(num_envs // parts, scenes=scene, **keywords)))
        shared = {"library": first.library, "renderer": first.renderer}
        others = [BatchNavEnv(num_envs // parts, **{**keywords, **shared}) for _ in range(parts - 1)]
        yield [first, *(stack.enter_context(closing(other)) for other in others)]


def tapes(envs: Sequence[BatchNavEnv]) -> list[list[np.ndarray]]:
    """Return the actions of the shortest-path follower after ``reset(seed=0)``, for each batch."""
    recorded = []
    for env in envs:
        actions = []
        with closing(BatchNavEnv(env.num_envs, library=env.library, sensors=(), autoreset_mode="same_step")) as blind:
            blind.reset(seed=0)
            for _ in range(TAPE_STEPS):
                actions.append(blind.shortest_path_actions())
                blind.step(actions[-1])
        recorded.append(actions)
    return recorded


def stepping(report: Report, what: str, envs: list[BatchNavEnv], bar: float | None) -> float:
    """Report and return frames/s of whole steps, with the processor's milliseconds in each phase."""
    actions = tapes(envs)
    taken = 0

    def step() -> int:
        nonlocal taken
        turn = taken % TAPE_STEPS
        if turn == 0:
            for env in envs:
                env.reset(seed=0)
        for env, tape in zip(envs, actions, strict=True):
            env.send(tape[turn])
        for env in envs:
            env.recv()
        taken += 1
        return sum(env.num_envs for env in envs)

    figure, note = rate(step, 0.5 if report.small else 2.5)
    spent = {part: 1000 * sum(env.timings[part] for env in envs) / taken for part in envs[0].timings}
    phases = ", ".join(f"{part} {milliseconds:.2f}" for part, milliseconds in spent.items())
    report.figure(what, figure, "frames/s", bar=bar, note=f"{note}; ms a step: {phases}")
    return figure


def training(report: Report, kind: str, num_envs: int) -> None:
    """Report frames/s of PPO after two iterations of warm-up, and the share of time of each phase."""
    import torch

    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.ppo import PPO, PPOConfig

    side = 32 if report.small else 64
    on_gpu = DEVICE == "cuda"
    with open_batches(APARTMENTS, num_envs, 1, camera=Camera(side, side)) as (env,):
        policy = make_policy(kind, env.single_observation_space).to(DEVICE)
        config = PPOConfig(
            num_steps=8 if report.small else 32, num_minibatches=4, normalize_advantages=True, autocast=on_gpu,
            channels_last=on_gpu,
        )  # fmt: skip
        ppo = PPO(env, policy, config)
        for _ in range(2):
            ppo.iterate()
        seconds: dict[str, float] = {}
        start = time.perf_counter()
        frames = ppo.frames
        while time.perf_counter() - start < (1.0 if report.small else 6.0):
            for part, spent in ppo.iterate().seconds.items():
                seconds[part] = seconds.get(part, 0.0) + spent
        figure = (ppo.frames - frames) / (time.perf_counter() - start)
    note = ", ".join(f"{part} {spent / sum(seconds.values()):.0%}" for part, spent in seconds.items())
    if on_gpu:
        note += f"; {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB in torch"
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    bar = None if report.small else TRAINING_BARS[kind]
    report.figure(f"training, {kind} policy, N={num_envs:,}", figure, "frames/s", bar=bar, note=note)


def main() -> None:
    report = Report("speed")
    report.figure("observations on", DEVICE, note=cuda_unavailable_reason())
    num_envs = 16 if report.small else 4096
    for scene, name in SCENES:
        for renderer in RENDERERS:
            with report.part(f"rendering, {renderer}, {name}"):
                rendering(report, renderer, scene, name)
        what = f"steps, {name}, depth 64x64, N={num_envs:,}"
        with report.part(what):
            bar = None if report.small else STEP_BAR
            with open_batches(scene, num_envs, 1, sensors=("depth",)) as envs:
                whole = stepping(report, what, envs, bar)
            with open_batches(scene, num_envs, 2, sensors=("depth",)) as envs:
                halves = stepping(report, f"{what}, two halves", envs, bar)
            report.figure(f"{what}, two halves to one batch", halves / whole, "x")
    for run in SMALL_RUNS if report.small else RUNS if DEVICE == "cuda" else ():
        with report.part(f"training, {run}"):
            training(report, *run)
    report.end()


if __name__ == "__main__":
    main()
