"""Stage train: training end to end in the apartments at 64 x 64 depth, a small policy and the paper's SE-ResNet9."""

from __future__ import annotations

import os
import time
from typing import Any

from figures import APARTMENTS, Report, append, device, why_no_cuda

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as gym-batchnav train sets it

BARS = {"small": 100_000, "paper": 60_000}
# Policy, agents, parts of the batch, whether the encoder is compiled; in the order of what is most worth knowing.
RUNS = (
    ("small", 4096, 1, False), ("paper", 2048, 1, False), ("paper", 2048, 2, False), ("small", 4096, 2, False),
    ("paper", 2048, 1, True), ("paper", 4096, 1, False), ("paper", 512, 1, False),
)  # fmt: skip
SMALL_RUNS = (("small", 16, 1, False), ("small", 16, 2, False))
SECONDS, STEPS = 6.0, 32


def make_batches(num_envs: int, parts: int, side: int) -> list[Any]:
    """A batch to learn in, or two that share scenes and renderer."""
    from gym_batchnav.env.batch_env import BatchNavEnv
    from gym_batchnav.geometry import Camera

    keywords: dict[str, Any] = {
        "camera": Camera(side, side), "autoreset_mode": "same_step", "reuse_buffers": True, "obs_device": device(),
    }  # fmt: skip
    first = BatchNavEnv(num_envs // parts, scenes=APARTMENTS, **keywords)
    others = [
        BatchNavEnv(num_envs // parts, library=first.library, renderer=first.renderer, **keywords)
        for _ in range(parts - 1)
    ]
    return [first, *others]


def train(report: Report, kind: str, num_envs: int, parts: int, compiled: bool) -> None:
    """Frames/s of PPO after two iterations of warm-up, by part."""
    import torch

    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.ppo import PPO, PPOConfig

    on_gpu = device() == "cuda"
    envs = make_batches(num_envs, parts, 32 if report.small else 64)
    policy = make_policy(kind, envs[0].single_observation_space).to(device())
    steps = 8 if report.small else STEPS
    options = {"autocast": on_gpu, "channels_last": on_gpu, "compile": compiled}
    ppo = PPO(envs, policy, PPOConfig(num_steps=steps, num_minibatches=4, normalize_advantages=True, **options))
    start = time.perf_counter()
    for _ in range(2):
        ppo.iterate()
    warm = time.perf_counter() - start
    seconds: dict[str, float] = {}
    start, frames = time.perf_counter(), ppo.frames
    while time.perf_counter() - start < (1.0 if report.small else SECONDS):
        for part, spent in ppo.iterate().seconds.items():
            seconds[part] = seconds.get(part, 0.0) + spent
    figure = (ppo.frames - frames) / (time.perf_counter() - start)
    total = sum(seconds.values())
    note = ", ".join(f"{part} {spent / total:.0%}" for part, spent in seconds.items())
    what = f"{kind} policy, N={num_envs:,}, {parts} part{'s' * (parts > 1)}{', compiled' * compiled}"
    memory = f"; {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of torch's" if on_gpu else ""
    bar = None if report.small or num_envs < 2048 else BARS[kind]
    report.figure(what, figure, "frames/s", bar=bar, note=f"{note}; warm after {warm:.0f} s{memory}", parts=seconds)
    for env in reversed(envs):
        env.close()
    if on_gpu:
        del ppo, policy
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main() -> None:
    report = Report("train")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        report.figure("training", None, note=f"left out: {error}")
        return
    if device() == "cpu":
        report.figure("training on", "cpu", note=why_no_cuda())
        if not report.small:
            append({"stage": "train", "what": "training", "value": None, "unit": "", "note": "left out without a GPU"})
            return
    for run in SMALL_RUNS if report.small else RUNS:
        with report.part(f"training, {run}"):
            train(report, *run)
    report.end()


if __name__ == "__main__":
    main()
