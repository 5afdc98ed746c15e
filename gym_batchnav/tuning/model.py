"""SpeedModel: frames/s of settings that never ran, with a figure that holds in at least nine of ten cases."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gym_batchnav.system.extras import needs_extra
from gym_batchnav.tuning.features import Run, Situation, SpeedSettings

MIN_RUNS = 12
MAX_RUNS = 600  # the newest count: fitting takes the cube of their number
HOLDS = 0.95  # aimed at, so that 0.9 is reached on scenes that the runs do not have
MIN_GROUPS = 3  # sets of scenes, to leave out one at a time
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Speeds:
    """Frames/s of S settings.

    Attributes:
        expected: [S] float64, the median of the model.
        promised: [S] float64, what should at least be measured in nine of ten cases.
    """

    expected: np.ndarray
    promised: np.ndarray


class SpeedModel:
    """A Gaussian process over the logarithm of frames/s, relative to the speed of the machine's processor.

    Its deviation grows where there are no runs, which makes the promise conservative there. How many deviations a
    promise lies below the median is conformal: it is chosen so that the promises hold in 95% of the runs when the
    model is fitted without the set of scenes they ran on (or, with fewer than three sets, without a fifth of the runs).

    Args:
        runs: Runs of one workload.

    Attributes:
        num_runs: Number of runs that the model was fitted to.
        margin: Deviations between expected and promised speed.

    Raises:
        ValueError: There are too few runs.
        MissingExtraError: scikit-learn is not installed.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        if len(runs) < MIN_RUNS:
            raise ValueError(f"{len(runs)} runs: a model of speed needs at least {MIN_RUNS}; pass explore={MIN_RUNS}")
        with needs_extra("tune", "tune"):
            from sklearn.exceptions import ConvergenceWarning
            from sklearn.gaussian_process import GaussianProcessRegressor
            from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        runs = runs[-MAX_RUNS:]
        self.num_runs = len(runs)
        features = np.stack([run.situation.features(run.settings) for run in runs])
        targets = np.array([run.relative_speed() for run in runs])
        self._center = features.mean(0)
        # A feature that never varied says nothing; a unit of it is as much as a typical spread of the others.
        self._scale = np.where(np.ptp(features, axis=0) > 0, features.std(0), 1.0)
        points = self._points(features)
        lengths = np.full(points.shape[1], 2.0)
        kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(lengths, (0.3, 30.0)) + WhiteKernel(0.01, (1e-5, 1.0))
        self._process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the feature does not matter
            self._process.fit(points, targets)
        fitted = self._process.kernel_

        def refit(chosen: np.ndarray) -> GaussianProcessRegressor:
            return GaussianProcessRegressor(fitted, optimizer=None, normalize_y=True).fit(
                points[chosen], targets[chosen]
            )

        errors = np.concatenate([_errors(refit(~left), points[left], targets[left]) for left in _parts(runs)])
        rank = min(math.ceil((len(errors) + 1) * HOLDS), len(errors))
        self.margin = max(float(np.sort(errors)[rank - 1]), 0.0)

    def speeds(self, situation: Situation, settings: Sequence[SpeedSettings]) -> Speeds:
        """Return the frames/s of settings in a situation."""
        features = np.stack([situation.features(one) for one in settings])
        mean, deviation = self._process.predict(self._points(features), return_std=True)
        speed = situation.machine.calibration_mops
        return Speeds(speed * np.exp2(mean), speed * np.exp2(mean - self.margin * deviation))

    def _points(self, features: np.ndarray) -> np.ndarray:
        """Return features [S, F] with mean 0 and deviation 1 over the runs."""
        return (features - self._center) / self._scale


def _parts(runs: Sequence[Run]) -> list[np.ndarray]:
    """Return masks [R] bool of the runs to leave out in turn: those on one set of scenes, or a fifth of them."""
    sets = [run.situation.scenes for run in runs]
    known = list(dict.fromkeys(sets))
    if len(known) >= MIN_GROUPS:
        return [np.array([one == group for one in sets]) for group in known]
    turns = np.random.default_rng(0).permutation(len(runs)) % FOLDS
    return [turns == turn for turn in range(FOLDS)]


def _errors(process: object, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return how many deviations runs [S] lie below what a process expects."""
    mean, deviation = process.predict(points, return_std=True)  # type: ignore[attr-defined]
    return (mean - targets) / deviation
