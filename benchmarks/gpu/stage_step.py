"""Stage step: whole steps of agents on shortest paths, in one batch and in two halves that overlap."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

import numpy as np
from figures import APARTMENTS, Report, cuda_unavailable_reason, device, named_scenes, open_batches, rate

from gym_batchnav.env.batch_env import BatchNavEnv

TAPE_STEPS = 60
BAR = 300_000


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


def measure(report: Report, what: str, envs: list[BatchNavEnv], bar: float | None) -> float:
    """Report frames/s and the processor's milliseconds in each phase of a step, and return frames/s."""
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

    figure, spread = rate(step, 0.5 if report.small else 2.5)
    for env in envs:
        env.timings.update(dict.fromkeys(env.timings, 0.0))
    steps = 3 if report.small else 20
    taken = 1
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wall = 1000 * (time.perf_counter() - start) / steps
    spent = {part: 1000 * sum(env.timings[part] for env in envs) / steps for part in envs[0].timings}
    phases = ", ".join(f"{part} {milliseconds:.2f}" for part, milliseconds in spent.items())
    report.figure(
        what, figure, "frames/s", bar=bar, note=f"spread {spread:.0%}; ms a step {wall:.2f}: {phases}", parts=spent
    )
    return figure


def main() -> None:
    report = Report("step")
    num_envs = 16 if report.small else 4096
    if device() == "cpu":
        report.figure("observations", "cpu", note=cuda_unavailable_reason())
    for scene, name in named_scenes():
        with report.part(f"steps, {name}"):
            bar = None if report.small else BAR
            what = f"{name}, depth 64x64, N={num_envs:,}"
            with open_batches(scene, num_envs, 1, "opengl", sensors=("depth",)) as envs:
                whole = measure(report, what, envs, bar)
            with open_batches(scene, num_envs, 2, "opengl", sensors=("depth",)) as envs:
                halves = measure(report, f"{what}, two halves", envs, bar)
            report.figure(f"{name}, two halves to one batch", halves / whole, "x")
    for name, sensors in (("depth and RGB 64x64", ("depth", "rgb")), ("blind", ())):
        with report.part(f"steps, {name}"), open_batches(APARTMENTS, num_envs, 1, "opengl", sensors=sensors) as envs:
            measure(report, f"apartments, {name}, N={num_envs:,}", envs, None)
    report.end()


if __name__ == "__main__":
    main()
