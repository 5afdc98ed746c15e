"""Stage train: training end to end in the apartments at 64 x 64 depth, a small policy and the paper's SE-ResNet9."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from figures import APARTMENTS, Report, append, cuda_unavailable_reason, device, open_batches

if TYPE_CHECKING:
    from gym_batchnav.env.batch_env import BatchNavEnv

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # the same as in gym-batchnav train

BARS = {"small": 100_000, "paper": 60_000}
# Policy, number of agents, parts of the batch, whether the encoder is compiled; most informative first.
RUNS = (
    ("small", 4096, 1, False), ("paper", 2048, 1, False), ("paper", 2048, 2, False), ("small", 4096, 2, False),
    ("paper", 2048, 1, True), ("paper", 4096, 1, False), ("paper", 512, 1, False),
)  # fmt: skip
SMALL_RUNS = (("small", 16, 1, False), ("small", 16, 2, False))
SECONDS = 6.0
STEPS = 32


def train(report: Report, kind: str, num_envs: int, parts: int, compiled: bool) -> None:
    """Report frames/s of PPO, then close the batches and free torch's memory on the GPU."""
    import torch

    from gym_batchnav.geometry import Camera

    side = 32 if report.small else 64
    try:
        with open_batches(APARTMENTS, num_envs, parts, camera=Camera(side, side)) as envs:
            measure(report, envs, kind, compiled)
    finally:
        if device() == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def measure(report: Report, envs: list[BatchNavEnv], kind: str, compiled: bool) -> None:
    """Report frames/s of PPO after two iterations of warm-up, and the share of time of each phase."""
    import torch

    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.ppo import PPO, PPOConfig

    on_gpu = device() == "cuda"
    num_envs = sum(env.num_envs for env in envs)
    parts = len(envs)
    policy = make_policy(kind, envs[0].single_observation_space).to(device())
    steps = 8 if report.small else STEPS
    options = {"autocast": on_gpu, "channels_last": on_gpu, "compile": compiled}
    ppo = PPO(envs, policy, PPOConfig(num_steps=steps, num_minibatches=4, normalize_advantages=True, **options))
    start = time.perf_counter()
    for _ in range(2):
        ppo.iterate()
    warm = time.perf_counter() - start
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    frames = ppo.frames
    while time.perf_counter() - start < (1.0 if report.small else SECONDS):
        for part, spent in ppo.iterate().seconds.items():
            seconds[part] = seconds.get(part, 0.0) + spent
    figure = (ppo.frames - frames) / (time.perf_counter() - start)
    total = sum(seconds.values())
    note = ", ".join(f"{part} {spent / total:.0%}" for part, spent in seconds.items())
    what = f"{kind} policy, N={num_envs:,}, {parts} part{'s' * (parts > 1)}{', compiled' * compiled}"
    memory = f"; {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB in torch" if on_gpu else ""
    bar = None if report.small or num_envs < 2048 else BARS[kind]
    report.figure(what, figure, "frames/s", bar=bar, note=f"{note}; warm after {warm:.0f} s{memory}", parts=seconds)


def main() -> None:
    report = Report("train")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        report.figure("training", None, note=f"left out: {error}")
        return
    if device() == "cpu":
        report.figure("training on", "cpu", note=cuda_unavailable_reason())
        if not report.small:
            append({"stage": "train", "what": "training", "value": None, "unit": "", "note": "left out without a GPU"})
            return
    for run in SMALL_RUNS if report.small else RUNS:
        with report.part(f"training, {run}"):
            train(report, *run)
    report.end()


if __name__ == "__main__":
    main()
