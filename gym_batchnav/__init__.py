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

from gym_batchnav.env.ids import IDS

if TYPE_CHECKING:
    from gym_batchnav.actions.continuous import HolonomicActions, VelocityActions, WaypointActions
    from gym_batchnav.actions.discrete import DiscreteActions
    from gym_batchnav.actions.noise import LoCoBotNoise
    from gym_batchnav.env.batch import BatchNavEnv
    from gym_batchnav.env.config import Episodes, Scenes
    from gym_batchnav.flight.actions import FlightActions
    from gym_batchnav.flight.task import DroneNav
    from gym_batchnav.geometry import Camera, CameraJitter
    from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
    from gym_batchnav.noise.depth import RedwoodNoise
    from gym_batchnav.noise.rgb import ColorJitter, GaussianNoise, PoissonNoise, SaltAndPepperNoise, SpeckleNoise
    from gym_batchnav.noise.timing import SensorTiming
    from gym_batchnav.scene.load import load_scene
    from gym_batchnav.scene.scene import Scene
    from gym_batchnav.state import Action
    from gym_batchnav.task.api import Measure, Sensor, Task, TaskState
    from gym_batchnav.task.explore import Explore, Flee
    from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
    from gym_batchnav.task.multigoal import MultiGoalNav
    from gym_batchnav.task.objectnav import ObjectNav
    from gym_batchnav.task.pointnav import PointNav

_NAMES = {
    "actions.continuous": ("HolonomicActions", "VelocityActions", "WaypointActions"),
    "actions.discrete": ("DiscreteActions",),
    "actions.noise": ("LoCoBotNoise",),
    "env.batch": ("BatchNavEnv",),
    "env.config": ("Episodes", "Scenes"),
    "flight.actions": ("FlightActions",),
    "flight.task": ("DroneNav",),
    "geometry": ("Camera", "CameraJitter"),
    "navmesh.mesh": ("NavMesh", "NavMeshSettings"),
    "noise.depth": ("RedwoodNoise",),
    "noise.rgb": ("ColorJitter", "GaussianNoise", "PoissonNoise", "SaltAndPepperNoise", "SpeckleNoise"),
    "noise.timing": ("SensorTiming",),
    "scene.load": ("load_scene",),
    "scene.scene": ("Scene",),
    "state": ("Action",),
    "task.api": ("Measure", "Sensor", "Task", "TaskState"),
    "task.explore": ("Explore", "Flee"),
    "task.imagenav": ("ImageNav", "InstanceImageNav"),
    "task.multigoal": ("MultiGoalNav",),
    "task.objectnav": ("ObjectNav",),
    "task.pointnav": ("PointNav",),
}
_EXPORTS = {name: f"gym_batchnav.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [
    "Action",
    "BatchNavEnv",
    "Camera",
    "CameraJitter",
    "ColorJitter",
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
for _name, _one in IDS.items():
    gymnasium.register(
        id=f"BatchNav/{_name}-v0",
        entry_point="gym_batchnav.env.single:SingleEnv",
        vector_entry_point="gym_batchnav.env.ids:make_batch",
        max_episode_steps=_one.max_episode_steps,
        kwargs={"name": _name},
    )
