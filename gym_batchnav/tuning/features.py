"""Runs as numbers: what a batch, its scenes and its machine are to the model of speed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gym_batchnav.library.features import SceneFeatures

STEP = "step"
TRAIN = "train"
WORKLOADS = (STEP, TRAIN)
SENSORS = ("depth", "rgb", "semantic")
_LARGEST = 1e15


@dataclass(frozen=True, slots=True)
class SpeedSettings:
    """The settings that decide how fast a batch is, and that ``tune`` chooses.

    Attributes:
        num_envs: N.
        resident_scenes: K.
        threads: Threads of Numba, Embree and torch.
        renderer: ``"embree"`` or ``"opengl"``.
        width: Pixels.
        height: Pixels.
        num_batches: Batches among which the environments are divided; one is drawn while the policy acts for another.
        num_minibatches: Mini-batches of a rollout; 0 without learning.
    """

    num_envs: int
    resident_scenes: int
    threads: int
    renderer: str
    width: int = 64
    height: int = 64
    num_batches: int = 1
    num_minibatches: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine is to a batch.

    Attributes:
        cores: Processors that this process may use.
        calibration_mops: See ``bench.calibrate``.
        has_gpu: Whether OpenGL runs on a graphics processor.
    """

    cores: int
    calibration_mops: float
    has_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is given when settings are chosen: the workload, its sensors, the scenes and the machine.

    Attributes:
        workload: ``"step"`` or ``"train"``.
        sensors: Image sensors.
        scenes: The scenes.
        machine: The machine.
        num_parameters: Of the policy that learns; 0 without learning.
    """

    workload: str
    sensors: tuple[str, ...]
    scenes: SceneFeatures
    machine: Machine
    num_parameters: int = 0

    def features(self, settings: SpeedSettings) -> np.ndarray:
        """Return the features [F] float64 of a run with these settings; counts and sizes as logarithms to base 2."""
        counts = (
            settings.num_envs,
            settings.resident_scenes,
            settings.threads,
            self.machine.cores,
            settings.width * settings.height,
            self.scenes.triangles,
            1 + self.scenes.texture_bytes,
            self.scenes.extent,
            settings.num_batches,
            1 + settings.num_minibatches,
            1 + self.num_parameters,
        )
        flags = [name in self.sensors for name in SENSORS]
        flags += [settings.renderer == "opengl", self.machine.has_gpu]
        return np.array([*(math.log2(one) for one in counts), *map(float, flags)])


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the past.

    Attributes:
        situation: What was given.
        settings: What was chosen.
        fps: Frames/s.
        seconds: Time that the measurement took, with its warm-up.
    """

    situation: Situation
    settings: SpeedSettings
    fps: float
    seconds: float = 0.0

    def relative_speed(self) -> float:
        """Return the logarithm to base 2 of the frames/s relative to the speed of the machine's processor."""
        return math.log2(self.fps / self.situation.machine.calibration_mops)

    def line(self) -> dict[str, Any]:
        """Return JSON values for the log."""
        return asdict(self)

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Run | None:
        """Return the run of a line of the log, or None if the line is something else."""
        try:
            given = line["situation"]
            situation = Situation(
                str(given["workload"]),
                tuple(map(str, given["sensors"])),
                SceneFeatures(**{name: _number(value) for name, value in given["scenes"].items()}),
                _machine(given["machine"]),
                int(_number(given["num_parameters"])),
            )
            settings: dict[str, Any] = {
                name: value if name == "renderer" else int(_number(value)) for name, value in line["settings"].items()
            }
            run = cls(situation, SpeedSettings(**settings), _number(line["fps"]), _number(line["seconds"]))
            figures = [run.relative_speed(), *situation.features(run.settings)]
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            return None
        return run if np.isfinite(figures).all() else None


def _machine(given: Mapping[str, Any]) -> Machine:
    """Return the machine of a line of the log."""
    return Machine(int(_number(given["cores"])), _number(given["calibration_mops"]), bool(given["has_gpu"]))


def _number(value: Any) -> float:
    """Return a JSON number, which strangers may have written, as it is.

    Raises:
        ValueError: It is no number from 0 to 1e15.
    """
    if not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r} is no number from 0 to {_LARGEST:g}")
    return value
