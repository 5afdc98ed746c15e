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
    from gym_batchnav.actions.continuous import HolonomicActions as HolonomicActions
    from gym_batchnav.actions.continuous import VelocityActions as VelocityActions
    from gym_batchnav.actions.continuous import WaypointActions as WaypointActions
    from gym_batchnav.actions.discrete import DiscreteActions as DiscreteActions
    from gym_batchnav.actions.noise import LoCoBotNoise as LoCoBotNoise
    from gym_batchnav.env.batch import BatchNavEnv as BatchNavEnv
    from gym_batchnav.env.config import Episodes as Episodes
    from gym_batchnav.env.config import Scenes as Scenes
    from gym_batchnav.flight.actions import FlightActions as FlightActions
    from gym_batchnav.flight.task import DroneNav as DroneNav
    from gym_batchnav.geometry import Camera as Camera
    from gym_batchnav.geometry import CameraJitter as CameraJitter
    from gym_batchnav.navmesh.mesh import NavMesh as NavMesh
    from gym_batchnav.navmesh.mesh import NavMeshSettings as NavMeshSettings
    from gym_batchnav.noise.depth import RedwoodNoise as RedwoodNoise
    from gym_batchnav.noise.rgb import GaussianNoise as GaussianNoise
    from gym_batchnav.noise.rgb import PoissonNoise as PoissonNoise
    from gym_batchnav.noise.rgb import SaltAndPepperNoise as SaltAndPepperNoise
    from gym_batchnav.noise.rgb import SpeckleNoise as SpeckleNoise
    from gym_batchnav.noise.timing import SensorTiming as SensorTiming
    from gym_batchnav.scene.load import load_scene as load_scene
    from gym_batchnav.scene.scene import Scene as Scene
    from gym_batchnav.state import Action as Action
    from gym_batchnav.task.api import Measure as Measure
    from gym_batchnav.task.api import Sensor as Sensor
    from gym_batchnav.task.api import Task as Task
    from gym_batchnav.task.api import TaskState as TaskState
    from gym_batchnav.task.explore import Explore as Explore
    from gym_batchnav.task.explore import Flee as Flee
    from gym_batchnav.task.imagenav import ImageNav as ImageNav
    from gym_batchnav.task.imagenav import InstanceImageNav as InstanceImageNav
    from gym_batchnav.task.multigoal import MultiGoalNav as MultiGoalNav
    from gym_batchnav.task.objectnav import ObjectNav as ObjectNav
    from gym_batchnav.task.pointnav import PointNav as PointNav

_EXPORTS = {
    "Action": "gym_batchnav.state",
    "BatchNavEnv": "gym_batchnav.env.batch",
    "Camera": "gym_batchnav.geometry",
    "CameraJitter": "gym_batchnav.geometry",
    "DiscreteActions": "gym_batchnav.actions.discrete",
    "DroneNav": "gym_batchnav.flight.task",
    "Episodes": "gym_batchnav.env.config",
    "Explore": "gym_batchnav.task.explore",
    "Flee": "gym_batchnav.task.explore",
    "FlightActions": "gym_batchnav.flight.actions",
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
__all__ = ["__version__", *_EXPORTS]

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
for _name, _one in IDS.items():
    gymnasium.register(
        id=f"BatchNav/{_name}-v0",
        entry_point="gym_batchnav.env.single:SingleEnv",
        vector_entry_point="gym_batchnav.env.ids:make_batch",
        max_episode_steps=_one.max_episode_steps,
        kwargs={"name": _name},
    )
