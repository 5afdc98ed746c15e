"""Observer: makes observations of images and of the readings of all other sensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gym_batchnav.env.cameras import AgentCameras, drawn_places
from gym_batchnav.env.delays import Delays
from gym_batchnav.episodes.draws import step_keys
from gym_batchnav.noise.depth import encode_depth
from gym_batchnav.task.api import Image, TaskState
from gym_batchnav.task.components import Components

Observation = dict[str, Any]  # by sensor: an array, or with obs_device="cuda" a torch tensor


class Observer:
    """Adds noise to images, reads all other sensors, and delays what arrives late.

    Args:
        cameras: The agents' cameras.
        components: The task with all sensors.
        delays: The timing of sensors.
    """

    def __init__(self, cameras: AgentCameras, components: Components, delays: Delays) -> None:
        self._cameras = cameras
        self._components = components
        self._delays = delays

    def observe(self, state: TaskState, images: dict[str, Any], rows: np.ndarray | None = None) -> Observation:
        """Return the observations of all agents, or of the agents ``rows`` [M].

        Args:
            state: The state of the batch.
            images: The agents' images by key, arrays or tensors [N, ...] or [M, ...], without noise; overwritten.
            rows: [M] int; None for all.
        """
        self._add_noise(state, images, rows)
        self._show(state, images, rows)
        readings = self._components.observe(state, rows)
        observation = {**images, **{name: self._cameras.to_device(values) for name, values in readings.items()}}
        if not self._delays.timing:
            return observation
        rows = np.arange(state.num_envs) if rows is None else rows
        return self._delays.apply(observation, state.memory, rows, state.episodes.num_steps[rows])

    def _show(self, state: TaskState, images: dict[str, Any], rows: np.ndarray | None) -> None:
        """Let components read the images of agents ``rows`` [M], or of all."""
        keys = [key for key in self._components.images if key in images]  # no images before the first batch
        if keys:
            rig = self._cameras.rig
            rows = np.arange(state.num_envs) if rows is None else rows
            cameras = [rig.cameras[rig.recordings[key].camera] for key in keys]
            episodes = state.episodes.noise[rows]
            seen = {
                key: Image(images[key], camera, drawn_places(camera, episodes))
                for key, camera in zip(keys, cameras, strict=True)
            }
            self._components.see(state, seen, rows)

    def _add_noise(self, state: TaskState, images: dict[str, Any], rows: np.ndarray | None) -> None:
        """Add noise to the images of agents ``rows`` [M], or of all, in place."""
        rig = self._cameras.rig
        chosen = slice(None) if rows is None else rows
        episode_keys = state.episodes.noise[chosen]
        num_steps = state.episodes.num_steps[chosen]
        for key, noise in rig.noise.items():
            if key not in images:  # no images before the first batch
                continue
            if noise.apply(images[key], step_keys(episode_keys, num_steps, key)) is not None:
                raise TypeError(f"sensor_noise={{{key!r}: {noise!r}}}: apply() returned a value; write into the images")
            camera, sensor = rig.recordings[key]
            if sensor == "depth":
                encode_depth(images[key], rig.cameras[camera].depth_encoding)
