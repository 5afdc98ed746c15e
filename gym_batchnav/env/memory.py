"""Estimate the memory of a batch before anything is allocated."""

from __future__ import annotations

import math

from gym_batchnav.actions.choice import agents_of
from gym_batchnav.env.cameras import PICTURE_VIEWS
from gym_batchnav.env.config import EnvConfig
from gym_batchnav.render.checks import needs_ray_table, ray_table_bytes
from gym_batchnav.state import agent_state, arrays_of, episode_state
from gym_batchnav.system.limits import MEMORY, available_memory

_COPIES = 3  # of every state array during a step: masks, infos and the outputs of kernels
_VIEW_BYTES = 3 * 64  # per view: its matrix and two copies


def check_memory(config: EnvConfig) -> None:
    """Raise unless the batch fits into the main memory that is available.

    Raises:
        ValueError: The batch does not fit; the message names the number of environments that would.
    """
    available = available_memory()
    one = bytes_per_environment(config)
    shared = shared_bytes(config)
    needed = shared + config.num_envs * one
    if available is None or needed <= available:
        return
    fits = max(1, (available - shared) // one)
    hint = "use a smaller camera=, fewer sensors= or " if config.rig.keys else "use "
    if shared + one > available:
        hint = "use a smaller camera and "
    together = f" and {shared:,} together" if shared else ""
    raise ValueError(
        f"num_envs={config.num_envs}: these environments need about {needed / 2**30:,.1f} GiB "
        f"({one:,} bytes each{together}), but only {available / 2**30:,.1f} GiB of main memory are available: {hint}at "
        f"most num_envs={fits}, or set the environment variable {MEMORY} to the bytes that you have, or to off"
    )


def shared_bytes(config: EnvConfig) -> int:
    """Return the minimum main memory, in bytes, that a batch of any size needs for its cameras.

    It holds a table of rays for each lens, and some pictures that the task takes.
    """
    tabled = [group.cameras[0] for group in config.rig.groups if needs_ray_table(group.cameras[0], group.sensors)]
    tabled += [camera for camera in config.components.picture_cameras if needs_ray_table(camera, ("rgb",))]
    tables = [ray_table_bytes(camera) for camera in tabled]
    pictures = sum(3 * camera.width * camera.height for camera in config.components.picture_cameras)
    # Tables are made one after the other.
    most = max((meanwhile for _, meanwhile in tables), default=0)
    return sum(kept for kept, _ in tables) + most + PICTURE_VIEWS * pictures


def bytes_per_environment(config: EnvConfig) -> int:
    """Return the minimum main memory, in bytes, that one environment of a batch needs."""
    arrays = [*arrays_of(agent_state(1)).values(), *arrays_of(episode_state(1)).values()]
    kept = config.delays.nbytes
    arrays += agents_of(config.action_kind, 1).memory(1).values()
    state = _COPIES * sum(array.nbytes for array in arrays) + config.components.memory_nbytes() + kept
    rig = config.rig
    views = _VIEW_BYTES * max(1, sum(len(group.cameras) for group in rig.groups))
    if config.obs_device != "cpu":
        return state + views
    picture = sum(math.prod(space.shape) * space.dtype.itemsize for space in rig.spaces.values())
    sets = config.num_buffers + 1 + (config.buffers is None)  # the target's ring, and the arrays handed out
    return state + views + sets * picture
