"""Checks of the keywords of a batch of flying agents."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.flight import FlightActions
from gym_batchnav.episodes.flight import FlightEpisodes
from gym_batchnav.episodes.samplers import EpisodeSampler
from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.methods import is_detour


def check_flight(
    actions: Actions, sampler: EpisodeSampler, cameras: Iterable[Camera], has_noise: bool, geodesic: str
) -> None:
    """Raise ValueError unless actions and task are both for flying agents, with cameras in them, or neither.

    Args:
        actions: The agents' actions.
        sampler: The task's kind of episodes.
        cameras: The agents' cameras.
        has_noise: Whether the agents' motion has noise.
        geodesic: The method that measures distances.
    """
    flies = isinstance(actions, FlightActions)
    if isinstance(sampler, FlightEpisodes) != flies:
        if flies:
            raise ValueError("actions='flight' needs a task in the air: pass task=DroneNav(), or choose other actions")
        raise ValueError("the task is one for flying agents: pass actions=FlightActions(), or choose another task")
    if not isinstance(sampler, FlightEpisodes):
        return
    if has_noise:
        raise ValueError("actuation_noise= is that of wheeled robots: leave it out for flying agents")
    if is_detour(geodesic):
        raise ValueError("geodesic='detour' measures paths on navmeshes: leave it out for flying agents")
    for camera in cameras:
        drawn = None if camera.jitter is None else camera.jitter.eye_height
        height = max(drawn or (camera.eye_height,), key=abs)
        if np.hypot(np.hypot(*camera.offset), height) > sampler.radius:
            raise ValueError(
                f"camera with eye_height={height:g} and offset={camera.offset}: a flying agent carries it "
                f"at most {sampler.radius:g} m from its centre: pass Camera(eye_height=0), without a jitter of it"
            )
