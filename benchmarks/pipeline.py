"""Time by stage: PPO, and a model that learns from a stream, with what overlaps and what idles.

python benchmarks/pipeline.py [--seconds 20] [--only ppo stream]

Each stage has its wall-clock time and its processor time, that of all threads for PPO and that of the learner's thread
for the stream; where other programs run, only the latter says what a stage costs. "idle" is the share of the time of
all cores in which this process computes nothing. The last lines compare a learner that runs during the
simulation with one that takes turns with it, in one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from gym_batchnav.bench import machine
from gym_batchnav.cli.flags import train_extra
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import ShortestPathAgent
from gym_batchnav.geometry import Camera
from gym_batchnav.stream.memory import SampleMemory
from gym_batchnav.stream.stream import PARTS, BatchStream, FrameSource, StreamSettings, columns_of
from gym_batchnav.system.process import num_processors
from gym_batchnav.system.wording import counted

with train_extra():
    import torch

    from gym_batchnav.stream.dataset import tensors_of
    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.ppo import PPO, PPOConfig
    from gym_batchnav.train.rollout import Rollout

EXAMPLE = Path(__file__).parents[1] / "examples" / "stream_autoencoder.py"


class Stopwatch:
    """Wall-clock and processor seconds by stage. A stage inside another one counts for the inner one alone.

    Args:
        processor_clock: Returns the processor time so far.
    """

    def __init__(self, processor_clock: Callable[[], float]) -> None:
        self.seconds: dict[str, np.ndarray] = {}  # [2] by stage: wall clock, processor
        self._clock = processor_clock
        self._stages: list[str] = []
        self._since = np.zeros(2)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the block as a stage."""
        self._turn()
        self._stages.append(name)
        try:
            yield
        finally:
            self._turn()
            self._stages.pop()

    def timed(self, function: Callable, name: str | Callable[[], str]) -> Callable:
        """Return a function whose calls count as a stage."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name if isinstance(name, str) else name()):
                return function(*args, **kwargs)

        return call

    def _turn(self) -> None:
        now = np.array([time.perf_counter(), self._clock()])
        if self._stages:
            current = self._stages[-1]
            self.seconds[current] = self.seconds.get(current, np.zeros(2)) + now - self._since
        self._since = now


@contextmanager
def processor_time() -> Iterator[dict[str, float]]:
    """Fill in the wall-clock seconds of a block, and the share of all cores that this process left idle."""
    figures: dict[str, float] = {}
    clock = time.perf_counter()
    used = time.process_time()
    yield figures
    figures["wall"] = time.perf_counter() - clock
    figures["idle"] = 1 - (time.process_time() - used) / (num_processors() * figures["wall"])


def report(title: str, seconds: dict[str, np.ndarray], figures: dict[str, float], count: int, unit: str) -> None:
    print(f"\n{title}: {counted(count, unit)}, {figures['idle']:.1%} of {num_processors()} cores idle")
    print(f"  {f'milliseconds per {unit}':<30} {'wall':>9} {'share':>6}   {'processor':>9} {'share':>6}")
    total = sum(seconds.values())
    for name, spent in seconds.items():
        (wall, used), (wall_share, used_share) = 1000 * spent / count, spent / total
        print(f"  {name:<30} {wall:9.2f} {wall_share:6.1%}   {used:9.2f} {used_share:6.1%}")
    if not torch.cuda.is_available():
        print("  pin, transfer                 skipped: torch finds no NVIDIA GPU")


def transfers(batch: dict[str, torch.Tensor]) -> None:
    """Print what it takes to copy a minibatch to the GPU, from ordinary and from pinned memory."""
    for what, one in (("ordinary", batch), ("pinned", {name: values.pin_memory() for name, values in batch.items()})):
        torch.cuda.synchronize()
        clock = time.perf_counter()
        for _ in range(100):
            for values in one.values():
                values.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        print(f"  transfer from {what:<14} {10 * (time.perf_counter() - clock):9.2f} ms per minibatch")


def measure_ppo(num_envs: int, seconds: float) -> None:
    """Train with the small policy and 32 x 32 depth, as the preset cpu, in the shipped apartments."""
    watch = Stopwatch(time.process_time)
    env = BatchNavEnv(num_envs, camera=Camera(32, 32), autoreset_mode="same_step", buffers=2)
    policy = make_policy("small", env.single_observation_space)
    config = PPOConfig(num_minibatches=4, optimizer="adamw", scale_learning_rate=False, normalize_advantages=True)
    ppo = PPO(env, policy, config)
    ppo.iterate()
    learns = torch.is_grad_enabled
    for owner, method, name in (
        (env.stepper, "send", "simulate"),
        (env.stepper, "recv", "simulate"),
        (env.cameras, "begin", "render"),
        (env.cameras, "finish", "render"),
        (env.cameras, "images_of", "render"),
        (ppo.collector, "_put", "copy observations"),
        (ppo.collector, "_send", "choose actions"),
        (ppo.collector, "_receive", "record"),
        (policy, "forward", lambda: "forward" if learns() else "infer"),
        (policy.encoder.channels, "forward", lambda: "cast, normalise" if learns() else "infer: cast, normalise"),
        (ppo, "_improve", "loss, clip gradients"),
        (ppo, "_learn", "advantages"),
        (ppo.optimizer, "step", "optimizer"),
    ):
        setattr(owner, method, watch.timed(getattr(owner, method), name))
    observed = watch.timed(Rollout.observed, lambda: "slice minibatches" if learns() else "choose actions")
    backward = watch.timed(torch.Tensor.backward, "backward")
    with (
        patch.object(Rollout, "observed", lambda *args: observed(*args)),
        patch.object(torch.Tensor, "backward", lambda *args: backward(*args)),
        processor_time() as figures,
        watch.stage("rest"),
    ):
        end = time.perf_counter() + seconds
        count = 0
        while count == 0 or time.perf_counter() < end:
            ppo.iterate()
            count += 1
    report(f"PPO, N={num_envs}", watch.seconds, figures, count, "iteration")
    print(f"  {count * config.num_steps * num_envs / figures['wall']:,.0f} frames/s")
    env.close()


class Learner:
    """The networks of examples/stream_autoencoder.py, with a stopwatch."""

    def __init__(self) -> None:
        spec = importlib.util.spec_from_file_location("stream_autoencoder", EXAMPLE)
        assert spec is not None and spec.loader is not None
        self._example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._example)
        torch.manual_seed(0)
        self._model = self._example.WorldModel(1)
        self._optimizer = torch.optim.Adam(self._model.parameters(), 1e-3)
        self.watch = Stopwatch(time.thread_time)

    def learn(self, batch: dict[str, np.ndarray]) -> None:
        """Take one gradient step."""
        watch = self.watch
        with watch.stage("to tensors"):
            tensors = tensors_of(batch)
        with watch.stage("cast, forward"):
            loss = sum(self._example.losses(self._model, tensors, "depth"))
        with watch.stage("backward"):
            self._optimizer.zero_grad()
            loss.backward()
        with watch.stage("optimizer"):
            self._optimizer.step()


def in_turns(env: BatchNavEnv, settings: StreamSettings) -> Iterator[dict[str, np.ndarray]]:
    """Yield the minibatches of a stream that simulates only while its consumer waits."""
    memory = SampleMemory(
        columns_of(env), settings.capacity, settings.sequence_length, False, np.random.default_rng([settings.seed, 0])
    )
    frames = FrameSource(env, ShortestPathAgent(), settings.seed, dict.fromkeys(PARTS, 0.0))
    owed = 0.0
    while True:
        memory.begin(env.num_envs)
        for step in range(settings.sequence_length):
            frames.next(memory, step)
        memory.end(env.num_envs)
        if len(memory) >= settings.first_draw:
            owed += env.num_envs * settings.samples_per_frame
        while owed >= settings.batch_size:
            owed -= settings.batch_size
            yield memory.draw(settings.batch_size)


def measure_stream(num_envs: int, seconds: float, samples_per_frame: float) -> None:
    """Learn an autoencoder and a next-frame model of 64 x 64 depth from the shipped apartments."""
    settings = StreamSettings(
        batch_size=32, sequence_length=2, capacity=1024, samples_per_frame=samples_per_frame, threads=1
    )
    learner = Learner()
    keywords = {"num_envs": num_envs, "scenes": "apartments", "buffers": 2}
    env = BatchNavEnv(**keywords)
    turns = in_turns(env, settings)
    with BatchStream(keywords, settings) as stream:
        learner.learn(next(stream))
        learner.learn(next(turns))
        learner.watch.seconds.clear()
        before = stream.stats()
        count = 0
        with processor_time() as figures:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                with learner.watch.stage("wait"):
                    batch = next(stream)
                learner.learn(batch)
                count += 1
        after = stream.stats()
        learner_seconds = dict(learner.watch.seconds)
        parts = {part: after["parts"][part] - before["parts"][part] for part in PARTS}
        report(f"learner of a stream, N={num_envs}", learner_seconds, figures, count, "gradient step")
        print("  the stream's thread, wall: " + ", ".join(f"{n} {1000 * s / count:.2f}" for n, s in parts.items()))
        if torch.cuda.is_available():
            transfers(tensors_of(batch))
        busy = sum(wall for name, (wall, _) in learner_seconds.items() if name != "wait")
        busy += sum(parts.values()) - parts["idle"]
        print(f"  both compute at once {max(busy / figures['wall'] - 1, 0):.1%} of the time")
        ratios = []
        for _ in range(6):
            rates = [steps_per_second(learner, batches, seconds / 12) for batches in (stream, turns)]
            ratios.append(rates[0] / rates[1])
    print(f"  with the simulation / in turns with it: {statistics.median(ratios):.2f} times as many minibatches/s")
    env.close()


def steps_per_second(learner: Learner, batches: Iterator[dict[str, np.ndarray]], seconds: float) -> float:
    clock = time.perf_counter()
    count = 0
    while count == 0 or time.perf_counter() - clock < seconds:
        learner.learn(next(batches))
        count += 1
    return count / (time.perf_counter() - clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--only", choices=("ppo", "stream"), nargs="+", default=["ppo", "stream"])
    parser.add_argument("--num-envs", type=int, default=256, help="of PPO")
    parser.add_argument("--stream-envs", type=int, default=64)
    parser.add_argument("--samples-per-frame", type=float, default=4.0)
    options = parser.parse_args()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    if "ppo" in options.only:
        measure_ppo(options.num_envs, options.seconds)
    if "stream" in options.only:
        torch.set_num_threads(1)  # the simulation has the other processor
        measure_stream(options.stream_envs, options.seconds, options.samples_per_frame)


if __name__ == "__main__":
    main()
