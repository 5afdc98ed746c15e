"""Compare RLlib's asynchronous APPO with PPO of gym_batchnav: the same task, homes, number of agents and time.

python benchmarks/asynchronous.py ppo --size 0 --minutes 5     # blind
python benchmarks/asynchronous.py appo --size 32 --minutes 5   # depth images of 32 x 32

Run one at a time, in an environment with the extras [rllib,train] and psutil. APPO is that of examples/rllib_appo.py,
which has no memory; PPO trains the recurrent policies "blind" and "small", which have the same encoder of images.
Success and SPL are those of the training episodes that ended in an eighth of the time, in which actions are drawn from
the policy.
"learned" counts a frame each time that it is learned from. Time begins with the first finished iteration.
"frames_per_cpu_second" divides frames by the time that all processes computed, which says more on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.train.policy import make_policy
from gym_batchnav.train.ppo import PPO, PPOConfig

PARTS = 8
EPOCHS = 2  # of our PPO; the example's APPO learns twice from each frame, too


@dataclass(frozen=True)
class Progress:
    """How far a training has got.

    Attributes:
        frames: Steps sampled since it began, summed over environments.
        learned: Steps learned from.
        ended: Episodes that ended in this iteration.
        success: Those of them that succeeded.
        spl: Their SPL, summed.
    """

    frames: int
    learned: int
    ended: int
    success: float
    spl: float


def ppo(options: argparse.Namespace) -> Iterator[Progress]:
    """Train with PPO of gym_batchnav."""
    images: dict[str, Any] = {"sensors": ()}
    if options.size:
        images = {"sensors": ("depth",), "camera": Camera(options.size, options.size)}
    env = BatchNavEnv(
        options.env_runners * options.num_envs, scenes=options.scenes, max_episode_steps=options.episode_steps,
        autoreset_mode="same_step", **images,
    )  # fmt: skip
    policy = make_policy("small" if options.size else "blind", env.single_observation_space)
    config = PPOConfig(
        num_steps=options.rollout, num_minibatches=4, num_epochs=EPOCHS, normalize_advantages=True, optimizer="adamw",
        learning_rate=2.5e-3, scale_learning_rate=False,
    )  # fmt: skip
    trainer = PPO(env, policy, config, seed=options.seed)
    while True:
        episodes = trainer.iterate(progress=0.01).episodes  # without a schedule, as the other
        success = episodes["success"]
        yield Progress(
            trainer.frames, EPOCHS * trainer.frames, len(success), float(success.sum()), float(episodes["spl"].sum())
        )


def appo(options: argparse.Namespace) -> Iterator[Progress]:
    """Train with APPO of RLlib."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import rllib_appo
    import rllib_run
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(rllib_appo)  # env runners do not find the examples
    rllib_run.connect(options)
    algorithm = rllib_appo.make_config(options).build_algo()
    while True:
        results = algorithm.train()
        counted = results["env_runners"]
        learned = results.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime", 0)
        ended, success, spl = (  # RLlib reports NaN where nothing was logged
            float(np.nan_to_num(counted.get(name, 0))) for name in ("num_episodes", "success", "spl")
        )
        frames = int(counted.get("num_env_steps_sampled_lifetime", 0))
        if frames:
            yield Progress(frames, int(learned), int(ended), *((success, spl) if ended else (0.0, 0.0)))


def computed() -> float:
    """Return the seconds that this process and those that it started have computed."""
    own = psutil.Process()
    spent = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:2])
    return spent


def follow(training: Iterator[Progress], minutes: float) -> list[dict[str, float]]:
    """Run a training; return its rates and scores in each eighth of the time."""
    first = last = next(training)
    begin = part_began = time.perf_counter()
    parts: list[dict[str, float]] = []
    sums = np.zeros(3)
    cpu = computed()
    for now in training:
        sums += now.ended, now.success, now.spl
        passed = time.perf_counter() - begin
        if passed >= 60 * minutes * (len(parts) + 1) / PARTS:
            seconds = begin + passed - part_began
            cpu_before, cpu = cpu, computed()
            success, spl = (sums[1:] / max(sums[0], 1)).tolist()
            parts.append({
                "seconds": round(passed, 1), "frames": now.frames - first.frames,
                "sampled_per_second": round((now.frames - last.frames) / seconds, 1),
                "learned_per_second": round((now.learned - last.learned) / seconds, 1),
                "frames_per_cpu_second": round((now.frames - last.frames) / (cpu - cpu_before), 1),
                "episodes": int(sums[0]), "success": round(success, 3), "spl": round(spl, 3),
            })  # fmt: skip
            print(parts[-1], flush=True)
            last, part_began, sums = now, time.perf_counter(), np.zeros(3)
        if passed >= 60 * minutes:
            return parts
    return parts


def main() -> None:
    """Train with the algorithm that the command line names and print a line for each eighth of the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=("ppo", "appo"))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--size", type=int, default=32, help="pixels per side of the depth image; 0 for none")
    parser.add_argument("--scenes", default="procedural:0-7?area=28&closed_doors=0&triangles=8000")
    parser.add_argument("--env-runners", type=int, default=1, help="of APPO; PPO steps as many agents in one batch")
    parser.add_argument("--num-envs", type=int, default=128, help="agents of an env runner")
    parser.add_argument("--rollout", type=int, default=32)
    parser.add_argument("--episode-steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="of APPO")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.address = None
    options.report = 1.0
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    training = {"ppo": ppo, "appo": appo}[options.algorithm](options)
    print(json.dumps(follow(training, options.minutes)))


if __name__ == "__main__":
    main()
