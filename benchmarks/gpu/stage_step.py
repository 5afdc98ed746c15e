"""Stage step: whole steps of agents on shortest paths, in one batch and in two halves that overlap."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from figures import APARTMENTS, HOUSE, Report, device, rate, why_no_cuda

from gym_batchnav.env.batch_env import BatchNavEnv

TAPE_STEPS = 60
BAR = 300_000


def batches(scene: str, num_envs: int, parts: int, sensors: tuple[str, ...]) -> list[BatchNavEnv]:
    """A batch, or several that share scenes and renderer."""
    keywords: dict[str, Any] = {
        "sensors": sensors, "reuse_buffers": True, "obs_device": device(), "autoreset_mode": "same_step",
    }  # fmt: skip
    first = BatchNavEnv(num_envs // parts, scenes=scene, renderer="opengl", **keywords)
    others = [
        BatchNavEnv(num_envs // parts, library=first.library, renderer=first.renderer, **keywords)
        for _ in range(parts - 1)
    ]
    return [first, *others]


def tapes(envs: Sequence[BatchNavEnv]) -> list[list[np.ndarray]]:
    """Actions of the followers of the shortest path after ``reset(seed=0)``, for each batch."""
    recorded = []
    for env in envs:
        blind = BatchNavEnv(env.num_envs, library=env.library, sensors=(), autoreset_mode="same_step")
        blind.reset(seed=0)
        actions = []
        for _ in range(TAPE_STEPS):
            actions.append(blind.shortest_path_actions())
            blind.step(actions[-1])
        blind.close()
        recorded.append(actions)
    return recorded


def measure(report: Report, what: str, envs: list[BatchNavEnv], bar: float | None) -> float:
    """Frames/s, and milliseconds of each phase as the processor sees them."""
    actions, taken = tapes(envs), 0

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

    figure, spread = rate(step, 0.5 if report.small else 2.5)
    for env in envs:
        env.timings.update(dict.fromkeys(env.timings, 0.0))
    steps = 3 if report.small else 20
    taken, start = 1, time.perf_counter()
    for _ in range(steps):
        step()
    wall = 1000 * (time.perf_counter() - start) / steps
    spent = {part: 1000 * sum(env.timings[part] for env in envs) / steps for part in envs[0].timings}
    phases = ", ".join(f"{part} {milliseconds:.2f}" for part, milliseconds in spent.items())
    report.figure(
        what, figure, "frames/s", bar=bar, note=f"spread {spread:.0%}; ms a step {wall:.2f}: {phases}", parts=spent
    )
    for env in reversed(envs):
        env.close()
    return figure


def main() -> None:
    report = Report("step")
    num_envs = 16 if report.small else 4096
    if device() == "cpu":
        report.figure("observations", "cpu", note=why_no_cuda())
    scenes = [(APARTMENTS, "apartments"), *([(str(HOUSE), "house")] if HOUSE.is_file() else [])]
    for scene, name in scenes:
        with report.part(f"steps, {name}"):
            bar = None if report.small else BAR
            what = f"{name}, depth 64x64, N={num_envs:,}"
            whole = measure(report, what, batches(scene, num_envs, 1, ("depth",)), bar)
            halves = measure(report, f"{what}, two halves", batches(scene, num_envs, 2, ("depth",)), bar)
            report.figure(f"{name}, two halves to one batch", halves / whole, "x")
    with report.part("steps, depth and RGB"):
        what = f"apartments, depth and RGB 64x64, N={num_envs:,}"
        measure(report, what, batches(APARTMENTS, num_envs, 1, ("depth", "rgb")), None)
    with report.part("steps, blind"):
        measure(report, f"apartments, blind, N={num_envs:,}", batches(APARTMENTS, num_envs, 1, ()), None)
    report.end()


if __name__ == "__main__":
    main()
