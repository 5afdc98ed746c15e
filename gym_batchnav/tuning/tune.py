"""Choosing settings: candidates, their promised speed, and exploring where nothing is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gym_batchnav.render.api import find_renderer
from gym_batchnav.render.cost import resident_cost
from gym_batchnav.system.limits import available_memory
from gym_batchnav.tuning.features import TRAIN, Run, Situation, SpeedSettings
from gym_batchnav.tuning.measure import Workload
from gym_batchnav.tuning.model import SpeedModel

NUM_ENVS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
MINIBATCHES = (1, 2, 4, 8)
BATCHES = (1, 2)
ROLLOUT_STEPS = 32  # of the training, whose observations are kept
_BYTES_PER_PIXEL = {"depth": 4, "rgb": 3, "semantic": 4}
_SETS = 4  # copies of the observations of a step: the renderer's ring, and those handed out
_USABLE = 0.8  # share of the available memory


@dataclass(frozen=True, slots=True)
class Limits:
    """What the choice may take.

    Attributes:
        resolutions: Pairs of width and height.
        renderers: Names of renderers of this machine.
        num_scenes: Scenes in the set, the most that can be resident.
        cores: Processors that this process may use.
        num_envs: Numbers of environments.
        memory: Bytes of memory that are free; None for those of this machine now.
    """

    resolutions: tuple[tuple[int, int], ...]
    renderers: tuple[str, ...]
    num_scenes: int
    cores: int
    num_envs: tuple[int, ...] = NUM_ENVS
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """A workload and the settings to choose from, on any machine.

    Attributes:
        workload: What is to be fast.
        resolutions: Pairs of width and height.
        renderer: See BatchNavEnv.
        num_envs: Numbers of environments.
    """

    workload: Workload
    resolutions: tuple[tuple[int, int], ...] = ((64, 64),)
    renderer: str = "auto"
    num_envs: tuple[int, ...] = NUM_ENVS

    def here(self) -> tuple[Situation, Limits]:
        """Return the situation and the limits on this machine; loads a few of the scenes.

        Raises:
            ValueError: The scenes or the renderer are unknown.
            RuntimeError: The renderer cannot run here.
        """
        drawn_by = find_renderer(self.renderer)
        situation = self.workload.situation(drawn_by.on_gpu)
        num_scenes = int(situation.scenes.num_scenes)
        cores = situation.machine.cores
        limits = Limits(self.resolutions, (drawn_by.name,), num_scenes, cores, self.num_envs, available_memory())
        return situation, limits


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings and their speed.

    Attributes:
        settings: The settings.
        promised: Frames/s that a measurement should at least show in nine of ten cases.
        expected: Frames/s that it should show in half of them.
    """

    settings: SpeedSettings
    promised: float
    expected: float


def candidates(situation: Situation, limits: Limits) -> list[SpeedSettings]:
    """Return all settings within the limits that fit into memory.

    Raises:
        ValueError: None fits.
    """
    residents = _powers(limits.num_scenes)
    threads = _powers(limits.cores)
    learns = situation.workload == TRAIN
    found = [
        SpeedSettings(num_envs, resident, num_threads, renderer, width, height, batches, minibatches)
        for num_envs, resident, num_threads, renderer, (width, height), batches, minibatches in itertools.product(
            limits.num_envs,
            residents,
            threads,
            limits.renderers,
            limits.resolutions,
            BATCHES if learns else (1,),
            MINIBATCHES if learns else (0,),
        )
        if max(resident, batches, minibatches) <= num_envs
    ]
    available = available_memory() if limits.memory is None else limits.memory
    fitting = [one for one in found if available is None or needed_bytes(situation, one) <= _USABLE * available]
    if not fitting:
        raise ValueError("no settings fit into the available memory: pass a smaller resolution= or fewer num_envs=")
    return fitting


def needed_bytes(situation: Situation, settings: SpeedSettings) -> int:
    """Return about how much main memory a batch needs for its scenes and observations."""
    scenes = situation.scenes
    triangles = int(scenes.triangles)
    one = resident_cost(triangles, 2 * triangles, 1, int(scenes.texture_bytes))[settings.renderer]
    pixel = sum(_BYTES_PER_PIXEL[name] for name in situation.sensors)
    kept = ROLLOUT_STEPS if situation.workload == TRAIN else 0
    frames = settings.num_envs * (_SETS + kept)
    return settings.resident_scenes * one + frames * pixel * settings.width * settings.height


def choose(runs: Sequence[Run], situation: Situation, limits: Limits, count: int = 5) -> list[Choice]:
    """Return the settings with the highest promised speed, the best first; nothing is simulated.

    Args:
        runs: Runs of the past, of any workload, scenes and machine.
        situation: The workload, the scenes and the machine.
        limits: What the choice may take.
        count: Number of choices.

    Raises:
        ValueError: There are too few runs of this workload, or no settings fit into memory.
    """
    model = SpeedModel([run for run in runs if run.situation.workload == situation.workload])
    settings = candidates(situation, limits)
    speeds = model.speeds(situation, settings)
    best = np.argsort(-speeds.promised, kind="stable")[:count]
    return [Choice(settings[row], float(speeds.promised[row]), float(speeds.expected[row])) for row in best.tolist()]


def explore(
    workload: Workload,
    situation: Situation,
    limits: Limits,
    count: int,
    seconds: float,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Iterator[Run]:
    """Measure settings drawn at random, which gives a model its first runs; yield each run when it has ended.

    Args:
        workload: What is measured.
        situation: Its scenes and machine.
        limits: What the settings may take.
        count: Number of settings.
        seconds: Duration of each measurement, after its warm-up.
        seed: Seed of the draw.
        progress: Called with the completed share, 0 to 1.
    """
    drawn = shuffled(candidates(situation, limits), seed)[:count]
    for done, settings in enumerate(drawn):
        run = workload.measure(settings, seconds)
        progress((done + 1) / len(drawn))
        yield with_scenes(run, situation)


def shuffled(settings: Sequence[SpeedSettings], seed: int) -> list[SpeedSettings]:
    """Return settings in a random order, which the seed and their number decide."""
    return [settings[row] for row in np.random.default_rng(seed).permutation(len(settings)).tolist()]


def with_scenes(run: Run, situation: Situation) -> Run:
    """Return a run with the features of the whole set of scenes, of which only some were resident."""
    return replace(run, situation=replace(run.situation, scenes=situation.scenes))


def _powers(most: int) -> list[int]:
    """Return the powers of two up to a number, and the number itself."""
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return powers if most in powers else [*powers, most]
