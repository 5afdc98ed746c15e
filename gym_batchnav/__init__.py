"""Thousands of agents navigating shared, textured 3-D homes as one batch, behind Gymnasium's VectorEnv.

Importing the package registers its environments with Gymnasium: ``BatchNav/PointNav-v0``, the same task with
single-array observations (``BatchNav/PointNavScan-v0`` and ``BatchNav/PointNavImage-v0``), and one id for each other
task, such as ``BatchNav/Explore-v0``. Heavy modules are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from gym_batchnav.actions.continuous import HolonomicActions, VelocityActions, WaypointActions
    from gym_batchnav.actions.discrete import DiscreteActions
    from gym_batchnav.actions.flight import FlightActions
    from gym_batchnav.actions.noise import LoCoBotNoise
    from gym_batchnav.env.batch_env import BatchNavEnv
    from gym_batchnav.env.config import Episodes, Scenes
    from gym_batchnav.geometry import Camera, CameraJitter
    from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
    from gym_batchnav.noise.depth import RedwoodNoise
    from gym_batchnav.noise.rgb import GaussianNoise, PoissonNoise, SaltAndPepperNoise, SpeckleNoise
    from gym_batchnav.noise.timing import SensorTiming
    from gym_batchnav.scene.load import load_scene
    from gym_batchnav.scene.scene import Scene
    from gym_batchnav.state import Action
    from gym_batchnav.task.api import Measure, Sensor, Task, TaskState
    from gym_batchnav.task.dronenav import DroneNav
    from gym_batchnav.task.explore import Explore
    from gym_batchnav.task.flee import Flee
    from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
    from gym_batchnav.task.multigoal import MultiGoalNav
    from gym_batchnav.task.objectnav import ObjectNav
    from gym_batchnav.task.pointnav import PointNav

_EXPORTS = {
    "Action": "gym_batchnav.state",
    "BatchNavEnv": "gym_batchnav.env.batch_env",
    "Camera": "gym_batchnav.geometry",
    "CameraJitter": "gym_batchnav.geometry",
    "DiscreteActions": "gym_batchnav.actions.discrete",
    "DroneNav": "gym_batchnav.task.dronenav",
    "Episodes": "gym_batchnav.env.config",
    "Explore": "gym_batchnav.task.explore",
    "Flee": "gym_batchnav.task.flee",
    "FlightActions": "gym_batchnav.actions.flight",
    "GaussianNoise": "gym_batchnav.noise.rgb",
    "HolonomicActions": "gym_batchnav.actions.continuous",
    "ImageNav": "gym_batchnav.task.imagenav",
    "InstanceImageNav": "gym_batchnav.task.imagenav",
    "LoCoBotNoise": "gym_batchnav.actions.noise",
    "Measure": "gym_batchnav.task.api",
    "MultiGoalNav": "gym_batchnav.task.multigoal",
    "NavMesh": "gym_batchnav.navmesh.mesh",
    "NavMeshSettings": "gym_batchnav.navmesh.mesh",
    "ObjectNav": "gym_batchnav.task.objectnav",
    "PointNav": "gym_batchnav.task.pointnav",
    "PoissonNoise": "gym_batchnav.noise.rgb",
    "RedwoodNoise": "gym_batchnav.noise.depth",
    "SaltAndPepperNoise": "gym_batchnav.noise.rgb",
    "Scene": "gym_batchnav.scene.scene",
    "Scenes": "gym_batchnav.env.config",
    "Sensor": "gym_batchnav.task.api",
    "SensorTiming": "gym_batchnav.noise.timing",
    "SpeckleNoise": "gym_batchnav.noise.rgb",
    "Task": "gym_batchnav.task.api",
    "TaskState": "gym_batchnav.task.api",
    "VelocityActions": "gym_batchnav.actions.continuous",
    "WaypointActions": "gym_batchnav.actions.continuous",
    "load_scene": "gym_batchnav.scene.load",
}

__all__ = [
    "Action",
    "BatchNavEnv",
    "Camera",
    "CameraJitter",
    "DiscreteActions",
    "DroneNav",
    "Episodes",
    "Explore",
    "Flee",
    "FlightActions",
    "GaussianNoise",
    "HolonomicActions",
    "ImageNav",
    "InstanceImageNav",
    "LoCoBotNoise",
    "Measure",
    "MultiGoalNav",
    "NavMesh",
    "NavMeshSettings",
    "ObjectNav",
    "PointNav",
    "PoissonNoise",
    "RedwoodNoise",
    "SaltAndPepperNoise",
    "Scene",
    "Scenes",
    "Sensor",
    "SensorTiming",
    "SpeckleNoise",
    "Task",
    "TaskState",
    "VelocityActions",
    "WaypointActions",
    "__version__",
    "load_scene",
]

try:
    __version__ = version("gym-batchnav")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0.0.0"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: Numba alone takes longer to import than Gymnasium."""
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'gym_batchnav' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List every public name, including those that are not imported yet."""
    return sorted({*globals(), *__all__})


# `make` keeps max_episode_steps for its TimeLimit, `make_vec` passes it on; 500 is also BatchNavEnv's default. Without
# a registered limit, an environment could not know which limit `make` was given and would truncate at its own 500.
gymnasium.register(
    id="BatchNav/PointNavScan-v0",
    entry_point="gym_batchnav.env.flat:SingleScan",
    vector_entry_point="gym_batchnav.env.flat:make_scan",
    max_episode_steps=500,
)
gymnasium.register(
    id="BatchNav/PointNavImage-v0",
    entry_point="gym_batchnav.env.flat:SingleImage",
    vector_entry_point="gym_batchnav.env.flat:make_image",
    max_episode_steps=500,
)
gymnasium.register(
    id="BatchNav/DroneNavScan-v0",
    entry_point="gym_batchnav.env.flat_flight:SingleFlightScan",
    vector_entry_point="gym_batchnav.env.flat_flight:make_dronenav_scan",
    max_episode_steps=500,
)
_STEPS = {
    "DroneNav": 500,
    "Explore": 500,
    "Flee": 500,
    "ImageNav": 1000,
    "InstanceImageNav": 1000,
    "MultiGoalNav": 2500,
    "ObjectNav": 500,
    "PointNav": 500,
    "SocialNav": 500,
}
for _name, _steps in _STEPS.items():
    gymnasium.register(
        id=f"BatchNav/{_name}-v0",
        entry_point=f"gym_batchnav.env.tasks:Single{_name}",
        vector_entry_point=f"gym_batchnav.env.tasks:make_{_name.lower()}",
        max_episode_steps=_steps,
    )
# Tasks of several agents: Gymnasium's interface for a single agent cannot hold them, and `make` says so.
for _name, _steps in {"Rendezvous": 300, "Tag": 200}.items():
    gymnasium.register(
        id=f"BatchNav/{_name}-v0",
        entry_point="gym_batchnav.env.tasks:refuse_single",
        vector_entry_point=f"gym_batchnav.env.tasks:make_{_name.lower()}",
        max_episode_steps=_steps,
    )
