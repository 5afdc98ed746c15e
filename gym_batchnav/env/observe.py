"""Observer: makes observations of images and of the readings of all other sensors, with their noise and delays."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gym_batchnav.env.cameras import AgentCameras, drawn_places, keys_matching
from gym_batchnav.episodes.draws import step_keys
from gym_batchnav.noise.depth import encode_depth
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.state import Buffers
from gym_batchnav.task.api import Image, TaskState
from gym_batchnav.task.components import Components


class Delays:
    """The timing of the sensors of a batch, see ``EnvConfig``; its readings are kept in the batch's buffers.

    Spaces are those of the readings of one agent, by key in the observation.
    """

    def __init__(self, timing: Mapping[str, SensorTiming] | None, spaces: Mapping[str, Any]) -> None:
        found = _timing_by_key({} if timing is None else timing, spaces)
        self.timing = {key: one for key, one in found.items() if one != SensorTiming()}  # not at once at every step
        self._spaces = {key: spaces[key] for key in self.timing}

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return zeroed arrays [N, num_kept, ...] for the readings that are kept, by name in the batch's buffers."""
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
        self, readings: dict[str, np.ndarray], buffers: Buffers, rows: np.ndarray, num_steps: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Keep the current readings [M, ...] of agents ``rows`` that are due, and return those that have arrived.

        ``num_steps`` [M] have passed since their episodes began. Applying them again in a step changes nothing.
        """
        return readings | {
            key: _arrived(buffers[_name(key)], one, readings[key], rows, num_steps) for key, one in self.timing.items()
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
    """Return the name of a key's readings in the batch's buffers, which no component can have."""
    return f"kept {key}"


def _timing_by_key(given: Mapping[str, SensorTiming], keys: Collection[str]) -> dict[str, SensorTiming]:
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


Observation = dict[str, Any]  # by sensor: an array, or with obs_device="cuda" a torch tensor


class Observer:
    """Adds noise to images, reads all other sensors, and delays what arrives late."""

    def __init__(self, cameras: AgentCameras, components: Components, delays: Delays) -> None:
        self._cameras = cameras
        self._components = components
        self._delays = delays

    def observe(self, state: TaskState, images: dict[str, Any], rows: np.ndarray | None = None) -> Observation:
        """Return the observations of all agents, or of the agents ``rows`` [M].

        Their images by key, arrays or tensors without noise, are overwritten.
        """
        self._add_noise(state, images, rows)
        self._show(state, images, rows)
        readings = self._components.observe(state, rows)
        observation = {**images, **{name: self._cameras.to_device(values) for name, values in readings.items()}}
        if not self._delays.timing:
            return observation
        rows = np.arange(state.num_envs) if rows is None else rows
        return self._delays.apply(observation, state.buffers, rows, state.episodes.num_steps[rows])

    def _show(self, state: TaskState, images: dict[str, Any], rows: np.ndarray | None) -> None:
        """Let components read the images of agents ``rows`` [M], or of all."""
        keys = self._components.images
        if keys:
            rig = self._cameras.rig
            rows = np.arange(state.num_envs) if rows is None else rows
            cameras = [rig.cameras[rig.recordings[key].camera] for key in keys]
            episodes = state.episodes.key[rows]
            seen = {
                key: Image(images[key], camera, drawn_places(camera, episodes))
                for key, camera in zip(keys, cameras, strict=True)
            }
            self._components.see(state, seen, rows)

    def _add_noise(self, state: TaskState, images: dict[str, Any], rows: np.ndarray | None) -> None:
        """Add noise to the images of agents ``rows`` [M], or of all, in place."""
        rig = self._cameras.rig
        chosen = slice(None) if rows is None else rows
        episode_keys = state.episodes.key[chosen]
        num_steps = state.episodes.num_steps[chosen]
        for key, noise in rig.noise.items():
            if noise.apply(images[key], step_keys(episode_keys, num_steps, key)) is not None:
                raise TypeError(f"sensor_noise={{{key!r}: {noise!r}}}: apply() returned a value; write into the images")
            camera, sensor = rig.recordings[key]
            if sensor == "depth":
                encode_depth(images[key], rig.cameras[camera].depth_encoding)
