"""Delays: sensors that do not read at every step, or whose readings arrive late."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gym_batchnav.env.rig import keys_matching
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.state import Memory


class Delays:
    """The timing of the sensors of a batch; its readings are kept in the batch's memory.

    Args:
        timing: The timing of sensors, by ``"depth"`` for every camera, ``"front/depth"`` for one, or the name of any
            other sensor; None for none.
        spaces: The space of each reading of one agent, with a shape and a dtype, by key in the observation.

    Attributes:
        timing: The timing of sensors that do not read at every step or read late, by key in the observation.

    Raises:
        ValueError: The timing is not a dict of SensorTiming by sensor, or a sensor is named twice.
    """

    def __init__(self, timing: Mapping[str, SensorTiming] | None, spaces: Mapping[str, Any]) -> None:
        found = _timing_by_key({} if timing is None else timing, spaces)
        self.timing = {key: one for key, one in found.items() if one != SensorTiming()}
        self._spaces = {key: spaces[key] for key in self.timing}

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return zeroed arrays [N, num_kept, ...] for the readings that are kept, by name in the batch's memory."""
        kept = {}
        for key, one in self.timing.items():
            space = self._spaces[key]
            kept[_name(key)] = np.zeros((num_envs, one.num_kept, *space.shape), space.dtype)
        return kept

    @property
    def nbytes(self) -> int:
        """The bytes of the readings that are kept for one agent."""
        spaces = self._spaces
        return sum(
            one.num_kept * math.prod(spaces[key].shape) * spaces[key].dtype.itemsize for key, one in self.timing.items()
        )

    def apply(
        self, readings: dict[str, np.ndarray], memory: Memory, rows: np.ndarray, num_steps: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Keep the current readings that are due, and return those that have arrived.

        Applying them again in the same step changes nothing.

        Args:
            readings: The current readings of M agents, arrays [M, ...] by key.
            memory: The batch's memory.
            rows: [M] int, the agents.
            num_steps: [M] int, steps since their episodes began.
        """
        return readings | {
            key: _arrived(memory[_name(key)], one, readings[key], rows, num_steps) for key, one in self.timing.items()
        }


def _arrived(
    kept: np.ndarray, timing: SensorTiming, reading: np.ndarray, rows: np.ndarray, num_steps: np.ndarray
) -> np.ndarray:
    """Write readings [M, ...] into those that are kept [N, num_kept, ...], and return those that have arrived."""
    due = num_steps % timing.period == 0
    kept[rows[due], num_steps[due] // timing.period % timing.num_kept] = reading[due]
    read_at = np.maximum(num_steps - timing.latency, 0)
    return kept[rows, read_at // timing.period % timing.num_kept]


def _name(key: str) -> str:
    """Return the name of a key's readings in the batch's memory, which no component can have."""
    return f"kept {key}"


def _timing_by_key(given: Mapping[str, SensorTiming], keys: Collection[str]) -> dict[str, SensorTiming]:
    """Return the timing of sensors by key in the observation."""
    if not isinstance(given, Mapping):
        raise ValueError(f"sensor_timing={given!r}: pass a dict, such as {{'rgb': SensorTiming(period=4)}}")
    found: dict[str, SensorTiming] = {}
    for text, timing in given.items():
        if not isinstance(timing, SensorTiming):
            raise ValueError(f"sensor_timing={{{text!r}: {timing!r}}}: pass a SensorTiming")
        for key in keys_matching("sensor_timing", text, keys):
            if key in found:
                raise ValueError(f"sensor_timing={given!r}: {key!r} has a timing twice; name each sensor once")
            found[key] = timing
    return found
