"""Choosing settings for speed: measurements in a log, a conservative model of their frames/s, and the choice."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import platformdirs

from gym_batchnav.bench import bench_step
from gym_batchnav.env.config import Scenes
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec, scene_sources
from gym_batchnav.library.workers import ALL_RESIDENT, ENVS_PER_SCENE
from gym_batchnav.render.cost import resident_cost
from gym_batchnav.system.calibration import calibrate
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.limits import available_memory
from gym_batchnav.system.numbers import check_choice
from gym_batchnav.system.process import num_processors

NUM_ENVS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
DEFAULT_ENVS = 256  # of bench step and the preset cpu
BYTES_PER_PIXEL = {"depth": 4, "rgb": 3, "semantic": 4}
COPIES = 4  # of the observations of a step: the renderer's ring, and those handed out
USABLE = 0.8  # share of the available memory
NUM_LOADED = 4  # scenes that are loaded to learn what a set of scenes is like
MIN_RUNS = 12
MAX_RUNS = 600  # only the newest are used, since the time of fitting grows with the cube of their number
HOLDS = 0.95  # share of promises kept on the scenes of the runs; on other scenes it is about 0.9
MIN_GROUPS = 3  # sets of scenes from which on one set at a time is left out to test the model
FOLDS = 5  # parts of the runs that are left out instead if there are fewer sets
MAX_LOG_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class SpeedSettings:
    """The settings that ``tune`` chooses.

    Attributes:
        num_envs: N.
        resident_scenes: K.
        threads: Threads of Numba and Embree.
        renderer: ``"embree"``, ``"opengl"`` or ``"warp"``.
        width: Pixels.
        height: Pixels.
    """

    num_envs: int
    resident_scenes: int
    threads: int
    renderer: str
    width: int = 64
    height: int = 64


@dataclass(frozen=True, slots=True)
class Situation:
    """The sensors, the scenes and the machine for which settings are chosen.

    Attributes:
        sensors: Image sensors.
        scenes: Their number; means over some of them of triangles, texture bytes, and the diagonal in metres.
        cores: Processors that may be used.
        calibration_mops: See ``calibrate``.
        has_gpu: Whether the renderer draws on a GPU.
    """

    sensors: tuple[str, ...]
    scenes: tuple[int, float, float, float]
    cores: int
    calibration_mops: float
    has_gpu: bool = False

    def features(self, settings: SpeedSettings) -> np.ndarray:
        """Return the features [F] float64 of a run with these settings; counts and sizes as logarithms to base 2."""
        _, triangles, texture_bytes, extent = self.scenes
        counts = (
            settings.num_envs,
            settings.resident_scenes,
            settings.threads,
            self.cores,
            settings.width * settings.height,
            triangles,
            1 + texture_bytes,
            extent,
        )
        flags = [name in self.sensors for name in BYTES_PER_PIXEL]
        flags += [settings.renderer == "opengl", self.has_gpu]
        return np.array([*(math.log2(one) for one in counts), *map(float, flags)])


@dataclass(frozen=True, slots=True)
class Run:
    """A measurement: frames/s of settings in a situation, and the seconds that it took with its warm-up."""

    situation: Situation
    settings: SpeedSettings
    fps: float
    seconds: float = 0.0

    @classmethod
    def from_line(cls, text: bytes) -> Run | None:
        """Return the run of a line of the log, or None if the line is something else."""
        try:
            line = json.loads(text)
            given = {**line["situation"]}
            given |= {name: tuple(given[name]) for name in ("sensors", "scenes")}
            run = cls(Situation(**given), SpeedSettings(**line["settings"]), line["fps"], line["seconds"])
            figures = [math.log2(run.fps / run.situation.calibration_mops), *run.situation.features(run.settings)]
        except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError):
            return None
        return run if np.isfinite(figures).all() else None


def runs_file() -> Path | None:
    """Return the file of the log, or None if there is none.

    It is named by the environment variable ``GYM_BATCHNAV_RUNS``, where ``off`` means none. By default it lies in the
    folder of ``GYM_BATCHNAV_CACHE``, or in the user's folder for data.
    """
    if chosen := os.environ.get("GYM_BATCHNAV_RUNS"):
        return None if chosen == "off" else Path(chosen).expanduser()
    folder = os.environ.get("GYM_BATCHNAV_CACHE") or platformdirs.user_data_dir("gym_batchnav")
    return Path(folder).expanduser() / "runs.jsonl"


def record_run(run: Run) -> bool:
    """Append a run to the log; return whether it was written. A log that cannot be written fails no measurement."""
    file = runs_file()
    if file is None:
        return False
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab", buffering=0) as log:
            # One write to a file opened for appending is never torn apart by another process. The first line feed ends
            # a line that a killed process has left.
            log.write(f"\n{json.dumps(asdict(run))}\n".encode())
    except OSError:
        return False
    return True


def read_runs(file: Path) -> list[Run]:
    """Return the runs in a log, oldest first; lines that are something else are skipped.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is larger than 64 MiB.
    """
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no log of runs '{file}': run gym-batchnav tune --explore {MIN_RUNS} first, or check the path"
        )
    if file.stat().st_size > MAX_LOG_BYTES:
        raise ValueError(f"'{file}' has more than {MAX_LOG_BYTES:,} bytes: keep its newest lines only")
    runs = map(Run.from_line, file.read_bytes().splitlines())
    return [run for run in runs if run is not None]


@dataclass(frozen=True)
class Workload:
    """The work that is to be fast.

    Attributes:
        scenes: The scenes, see BatchNavEnv.
        sensors: Image sensors.
        max_triangles: See BatchNavEnv.

    Raises:
        ValueError: A sensor is unknown.
    """

    scenes: SceneSpec
    sensors: tuple[str, ...] = ("depth",)
    max_triangles: int | None = None

    def __post_init__(self) -> None:
        for name in self.sensors:
            check_choice("sensors", name, tuple(BYTES_PER_PIXEL))

    def situation(self, has_gpu: bool = False, cores: int | None = None) -> Situation:
        """Load a few of the scenes and return what a model of speed has to know; nothing is simulated."""
        sources = scene_sources(self.scenes, options={"max_triangles": self.max_triangles})
        library = SceneLibrary(sources, num_active=min(len(sources), NUM_LOADED))
        scenes = [library.scene(slot) for slot in library.active.tolist()]
        means = (
            float(np.mean([max(len(one.triangles), 1) for one in scenes])),
            float(np.mean([sum(texture.nbytes for texture in one.textures) for one in scenes])),
            float(np.mean([np.linalg.norm(np.ptp(one.vertices, axis=0)) for one in scenes])),
        )
        speed = float(np.median([calibrate() for _ in range(5)]))
        return Situation(self.sensors, (len(sources), *means), cores or num_processors(), speed, has_gpu)

    def measure(self, situation: Situation, settings: SpeedSettings, seconds: float) -> Run:
        """Run a batch with some settings for some seconds, after a warm-up, and return its speed.

        Raises:
            ValueError: The settings do not fit the scenes or the machine's memory.
        """
        begun = time.perf_counter()
        figures = bench_step(
            Scenes(self.scenes, resident=settings.resident_scenes, max_triangles=self.max_triangles),
            settings.num_envs,
            seconds,
            sensors=self.sensors,
            camera=Camera(settings.width, settings.height),
            renderer=settings.renderer,
            threads=settings.threads,
        )
        situation = replace(situation, calibration_mops=figures["calibration_mops"])
        return Run(situation, settings, figures["fps"], time.perf_counter() - begun)


class SpeedModel:
    """A Gaussian process over the logarithm of frames/s, relative to the speed of the machine's processor.

    Its deviation grows where there are no runs, which makes the promise conservative there. How many deviations a
    promise lies below the median is conformal: it is chosen so that the promises hold in 95% of the runs when the
    model is fitted without the set of scenes they ran on (or, with fewer than three sets, without a fifth of the runs).

    Args:
        runs: Runs of the past, of any scenes and machines.

    Raises:
        ValueError: There are too few runs.
        MissingExtraError: scikit-learn is not installed.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        if len(runs) < MIN_RUNS:
            raise ValueError(
                f"{len(runs)} runs: a model of speed needs at least {MIN_RUNS}; run gym-batchnav tune --explore "
                f"{MIN_RUNS}"
            )
        with needs_extra("tune", "tune"):
            from sklearn.exceptions import ConvergenceWarning
            from sklearn.gaussian_process import GaussianProcessRegressor
            from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        runs = runs[-MAX_RUNS:]
        features = np.stack([run.situation.features(run.settings) for run in runs])
        targets = np.array([math.log2(run.fps / run.situation.calibration_mops) for run in runs])
        self._center = features.mean(0)
        # A feature that never varied says nothing; a unit of it is as much as a typical spread of the others.
        self._scale = np.where(np.ptp(features, axis=0) > 0, features.std(0), 1.0)
        points = (features - self._center) / self._scale
        lengths = RBF(np.full(points.shape[1], 2.0), (0.3, 30.0))
        kernel = ConstantKernel(1.0, (1e-2, 1e3)) * lengths + WhiteKernel(0.01, (1e-5, 1.0))
        self._process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the feature does not matter
            self._process.fit(points, targets)
        errors: list[float] = []
        for left in _left_out(runs):
            other = GaussianProcessRegressor(self._process.kernel_, optimizer=None, normalize_y=True)
            mean, deviation = other.fit(points[~left], targets[~left]).predict(points[left], return_std=True)
            errors += ((mean - targets[left]) / deviation).tolist()
        rank = min(math.ceil((len(errors) + 1) * HOLDS), len(errors))
        self._margin = max(sorted(errors)[rank - 1], 0.0)

    def speeds(self, situation: Situation, settings: Sequence[SpeedSettings]) -> tuple[np.ndarray, np.ndarray]:
        """Return the frames/s [S] that settings should show in half of the cases, and in nine of ten."""
        features = np.stack([situation.features(one) for one in settings])
        mean, deviation = self._process.predict((features - self._center) / self._scale, return_std=True)
        speed = situation.calibration_mops
        return speed * np.exp2(mean), speed * np.exp2(mean - self._margin * deviation)


def check_model() -> None:
    """Raise MissingExtraError unless a SpeedModel can be made; call it before measuring."""
    with needs_extra("tune", "tune"):
        import sklearn.gaussian_process  # noqa: F401


def _left_out(runs: Sequence[Run]) -> list[np.ndarray]:
    """Return masks [R] bool of the runs to leave out in turn: those on one set of scenes, or a fifth of them."""
    sets = [run.situation.scenes for run in runs]
    known = list(dict.fromkeys(sets))
    if len(known) >= MIN_GROUPS:
        return [np.array([one == group for one in sets]) for group in known]
    turns = np.random.default_rng(0).permutation(len(runs)) % FOLDS
    return [turns == turn for turn in range(FOLDS)]


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings, and the frames/s that they should show in nine of ten cases and in half of them."""

    settings: SpeedSettings
    promised: float
    expected: float


def candidates(
    situation: Situation,
    renderer: str,
    resolutions: Sequence[tuple[int, int]] = ((64, 64),),
    num_envs: Sequence[int] = NUM_ENVS,
) -> list[SpeedSettings]:
    """Return all settings for a renderer, with some resolutions (width, height) and N, that fit into memory.

    Raises:
        ValueError: None fits.
    """
    found = [
        SpeedSettings(count, resident, threads, renderer, width, height)
        for count, resident, threads, (width, height) in itertools.product(
            num_envs, _powers(situation.scenes[0]), _powers(situation.cores), resolutions
        )
        if resident <= count
    ]
    available = available_memory()
    fitting = [one for one in found if available is None or needed_bytes(situation, one) <= USABLE * available]
    if not fitting:
        raise ValueError("no settings fit into the available memory: choose a smaller resolution, or free memory")
    return fitting


def defaults(situation: Situation, renderer: str, resolution: tuple[int, int] = (64, 64)) -> SpeedSettings:
    """Return the settings of a user who chooses none."""
    num_scenes = situation.scenes[0]
    resident = num_scenes if num_scenes <= ALL_RESIDENT else min(-(-DEFAULT_ENVS // ENVS_PER_SCENE), num_scenes)
    return SpeedSettings(DEFAULT_ENVS, resident, situation.cores, renderer, *resolution)


def needed_bytes(situation: Situation, settings: SpeedSettings) -> int:
    """Return about how much main memory a batch needs for its scenes and observations."""
    _, triangles, texture_bytes, _ = situation.scenes
    costs = resident_cost(int(triangles), 2 * int(triangles), 1, int(texture_bytes))
    one = costs["opengl" if settings.renderer == "opengl" else "embree"]  # Warp takes less than Embree
    pixel = sum(BYTES_PER_PIXEL[name] for name in situation.sensors)
    frames = COPIES * settings.num_envs
    return settings.resident_scenes * one + frames * pixel * settings.width * settings.height


def choose(
    runs: Sequence[Run], situation: Situation, settings: Sequence[SpeedSettings], count: int = 5
) -> list[Choice]:
    """Return the settings with the highest promised speed, the best first; nothing is simulated.

    Raises:
        ValueError: There are too few runs.
    """
    expected, promised = SpeedModel(runs).speeds(situation, settings)
    best = np.argsort(-promised, kind="stable")[:count].tolist()
    return [Choice(settings[row], float(promised[row]), float(expected[row])) for row in best]


def _powers(most: int) -> list[int]:
    """Return the powers of two up to a number, and the number itself."""
    return sorted({*(2**power for power in range(most.bit_length())), most})
