"""Measuring settings: the run of a benchmark, or of a few iterations of PPO."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_batchnav.bench import bench_step, threads_of_numba
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.env.settings import check_choice
from gym_batchnav.geometry import Camera
from gym_batchnav.library.features import SceneFeatures, scene_features
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec, scene_sources
from gym_batchnav.render.api import is_software
from gym_batchnav.system.calibration import calibrate
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.process import num_processors
from gym_batchnav.tuning.features import SENSORS, STEP, TRAIN, WORKLOADS, Machine, Run, Situation, SpeedSettings

if TYPE_CHECKING:
    from gym_batchnav.train.run.run import TrainingRun

NUM_CALIBRATIONS = 5
NUM_LOADED = 4  # scenes that are loaded to learn what a set of scenes is like


@dataclass(frozen=True)
class Workload:
    """What is to be fast.

    Attributes:
        scenes: The scenes, see BatchNavEnv.
        sensors: Image sensors.
        kind: ``"step"`` for simulation alone, ``"train"`` for PPO.
        policy: Kind of the policy that learns, see ``make_policy``.
    """

    scenes: SceneSpec
    sensors: tuple[str, ...] = ("depth",)
    kind: str = STEP
    policy: str = "small"

    def __post_init__(self) -> None:
        """Raise ValueError if the kind or a sensor is unknown."""
        check_choice("kind", self.kind, WORKLOADS)
        for name in self.sensors:
            check_choice("sensors", name, SENSORS)

    def measure(self, settings: SpeedSettings, seconds: float) -> Run:
        """Run a batch with some settings for some seconds, after a warm-up, and return its speed.

        Raises:
            ValueError: The settings do not fit the scenes or the machine's memory.
        """
        begun = time.perf_counter()
        if self.kind == TRAIN:
            run = self._measure_training(settings, seconds)
        else:
            figures = bench_step(
                self.scenes,
                settings.num_envs,
                seconds,
                sensors=self.sensors,
                camera=Camera(settings.width, settings.height),
                renderer=settings.renderer,
                resident_scenes=settings.resident_scenes,
                threads=settings.threads,
            )
            run = bench_run(figures)
        return replace(run, seconds=time.perf_counter() - begun)

    def situation(self, has_gpu: bool = False) -> Situation:
        """Load a few of the scenes and return what a model of speed has to know; nothing is simulated."""
        sources = scene_sources(self.scenes)
        library = SceneLibrary(sources, num_active=min(len(sources), NUM_LOADED))
        features = replace(scene_features(library), num_scenes=float(len(sources)))
        return Situation(self.kind, self.sensors, features, this_machine(has_gpu), self._num_parameters())

    def _num_parameters(self) -> int:
        """Return the number of parameters of the policy that learns."""
        if self.kind != TRAIN:
            return 0
        with needs_extra("train", "tune --for train"):
            from gym_batchnav.train.policy import make_policy
        with closing(BatchNavEnv(1, scenes="apartment_0", sensors=self.sensors, camera=Camera(32, 32))) as env:
            policy = make_policy(self.policy, _space(env))
        return sum(one.numel() for one in policy.parameters())

    def _measure_training(self, settings: SpeedSettings, seconds: float) -> Run:
        """Train for a while with the hyper-parameters of the preset ``cpu``."""
        with needs_extra("train", "tune --for train"):
            from gym_batchnav.train.policy import make_policy
            from gym_batchnav.train.ppo import PPO
            from gym_batchnav.train.run.presets import PRESETS
            from gym_batchnav.train.run.run import use_threads

        with ExitStack() as stack:
            stack.enter_context(threads_of_numba(settings.threads))
            batches = self._make_batches(settings, stack)
            use_threads(settings.threads)
            policy = make_policy(self.policy, _space(batches[0]))
            ppo = PPO(batches, policy, replace(PRESETS["cpu"].ppo, num_minibatches=settings.num_minibatches))
            ppo.iterate()  # compiles
            frames = ppo.frames
            begun = time.perf_counter()
            while (passed := time.perf_counter() - begun) < seconds:
                ppo.iterate()
            machine = this_machine(draws_on_gpu(batches[0]))
            num_parameters = sum(one.numel() for one in policy.parameters())
            situation = Situation(TRAIN, self.sensors, scene_features(batches[0].library), machine, num_parameters)
        return Run(situation, settings, (ppo.frames - frames) / passed)

    def _make_batches(self, settings: SpeedSettings, stack: ExitStack) -> list[BatchNavEnv]:
        """Make the batches of a training, which share scenes; the stack closes them."""
        batches: list[BatchNavEnv] = []
        for share in np.array_split(np.arange(settings.num_envs), settings.num_batches):
            scenes: dict[str, Any] = {"scenes": self.scenes, "resident_scenes": settings.resident_scenes}
            env = BatchNavEnv(
                len(share),
                sensors=self.sensors,
                camera=Camera(settings.width, settings.height),
                renderer=settings.renderer,
                autoreset_mode="same_step",
                reuse_buffers=True,
                **({"library": batches[0].library} if batches else scenes),
            )
            stack.callback(env.close)
            batches.append(env)
        return batches


def _space(env: BatchNavEnv) -> Any:
    """Return the observation space of one environment, a Dict of Gymnasium's."""
    return env.single_observation_space


def bench_run(figures: Mapping[str, Any]) -> Run:
    """Return the run of what ``bench_step`` returned."""
    width, height = figures["resolution"]
    renderer = figures.get("renderer", "none")
    settings = SpeedSettings(
        figures["num_envs"], figures["resident_scenes"], figures["threads"], renderer, width, height
    )
    has_gpu = figures.get("renderer") == "opengl" and not is_software(figures["device"])
    machine = Machine(num_processors(), figures["calibration_mops"], has_gpu)
    situation = Situation(STEP, tuple(figures["sensors"]), SceneFeatures(**figures["scene_features"]), machine)
    return Run(situation, settings, figures["fps"])


def training_run(run: TrainingRun, fps: float) -> Run:
    """Return the run of a training."""
    env = run.ppo.collector.envs[0]
    preset = run.preset
    images = env.cameras.sensors  # without any, asking for the renderer would make one
    settings = SpeedSettings(
        preset.num_envs,
        len(env.library.active),
        run.threads,
        env.renderer.name if images else "none",
        preset.camera.width,
        preset.camera.height,
        len(run.ppo.collector.envs),
        preset.ppo.num_minibatches,
    )
    machine = this_machine(bool(images) and draws_on_gpu(env))
    num_parameters = sum(one.numel() for one in run.ppo.policy.parameters())
    situation = Situation(TRAIN, images, scene_features(env.library), machine, num_parameters)
    return Run(situation, settings, fps, run.seconds)


def this_machine(has_gpu: bool = False) -> Machine:
    """Measure the speed of this machine's processor for some milliseconds."""
    speed = float(np.median([calibrate() for _ in range(NUM_CALIBRATIONS)]))
    return Machine(num_processors(), speed, has_gpu)


def draws_on_gpu(env: BatchNavEnv) -> bool:
    """Return whether a batch is drawn by a graphics processor."""
    return env.renderer.name == "opengl" and not is_software(env.renderer.device)
