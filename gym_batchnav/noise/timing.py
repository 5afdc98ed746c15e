"""SensorTiming: sensors that do not read at every step, or whose readings arrive late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class SensorTiming:
    """When a sensor reads, and when its readings arrive.

    A sensor reads when an episode begins and at every ``period``-th step after it. A reading becomes part of the
    observation ``latency`` steps later, and stays until the next one arrives; until the second arrives, that is the
    first reading of the episode.

    Attributes:
        period: Steps from one reading to the next.
        latency: Steps from a reading to its first observation.

    Raises:
        ValueError: The period is not a whole number from 1 to 1,000, or the latency not one from 0 to 1,000.
    """

    period: int = 1
    latency: int = 0

    def __post_init__(self) -> None:
        for name, least in (("period", 1), ("latency", 0)):
            steps = getattr(self, name)
            if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or not least <= steps <= 1000:
                raise ValueError(f"{name}={steps!r}: pass a whole number of steps from {least} to 1000")

    @property
    def num_kept(self) -> int:
        """The number of readings that must be kept."""
        return -(-int(self.latency) // int(self.period)) + 1
