"""The protocols of papers and challenges: camera, motion, noise, task and limits by name.

``gymnasium.make_vec("BatchNav/PointNav-v0", 64, protocol="pointnav-2021", scenes=...)`` has all of a protocol's
settings; keywords passed explicitly override them. Scenes and episodes are the user's: ``scenes=`` and ``episodes=``.

Habitat counts the height of cameras from the navmesh, this package from the visible floor, which lies up to 0.2 m
lower; see docs/from_habitat.md. In the protocols of Habitat, depth is zero where nothing is hit, as it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.continuous import VelocityActions
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.actions.noise import ActuationNoise, LoCoBotNoise
from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.noise.depth import RedwoodNoise
from gym_batchnav.noise.rgb import GaussianNoise
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.task.api import Sensor, Task
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.sensors import GPS, Compass, StaticPointGoal

_NOT_KEYWORDS = ("name", "source", "notes")


@dataclass(frozen=True, kw_only=True)
class NavigationProtocol:
    """The settings of a paper or challenge; all fields but the first three are keywords of BatchNavEnv.

    Attributes:
        name: Name of the protocol.
        source: File or paper that states the values.
        notes: Differences from the source, and values that it leaves open.
        task: The task with its success distance.
        camera: The camera.
        sensors: Image sensors, and sensors in addition to those of the task.
        sensor_noise: Noise of images by sensor.
        actions: The agents' actions.
        actuation_noise: Noise of the agents' motion.
        sliding: Whether agents slide along walls.
        max_episode_steps: Limit of steps.
        navmesh_settings: The agent for which navmeshes are built.
        geodesic: Method of distances, ``"exact"`` or ``"detour"``, that of Habitat.
        sensor_timing: When sensors read and when their readings arrive.
    """

    name: str
    source: str
    notes: str = ""
    task: Task
    camera: Camera
    sensors: tuple[str | Sensor, ...] = ("rgb", "depth")
    sensor_noise: Mapping[str, SensorNoise] | None = None
    actions: Actions = field(default=DiscreteActions())
    actuation_noise: ActuationNoise | None = None
    sliding: bool = True
    max_episode_steps: int = 500
    navmesh_settings: NavMeshSettings = field(default=NavMeshSettings())
    geodesic: str = "exact"
    sensor_timing: Mapping[str, SensorTiming] | None = None

    def __post_init__(self) -> None:
        for name in _NOT_KEYWORDS:
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={getattr(self, name)!r} of a protocol: pass a string")
        if isinstance(self.task, type) or not hasattr(self.task, "reward"):
            raise ValueError(f"task={self.task!r} of protocol {self.name!r}: pass a task such as PointNav()")

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of BatchNavEnv."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NOT_KEYWORDS}


_DEFAULT_CAMERA = Camera(256, 256, hfov_deg=90, eye_height=1.25, min_depth=0, max_depth=10, depth_miss="zero")
_DEFAULT_BODY = NavMeshSettings(agent_radius=0.1, agent_height=1.5)
_LOCOBOT = NavMeshSettings(agent_radius=0.18, agent_height=0.88)
_STRETCH = NavMeshSettings(agent_radius=0.17, agent_height=1.41, agent_max_climb=0.1, cell_height=0.05)
_STRETCH_CAMERA = Camera(480, 640, hfov_deg=42, eye_height=1.31, min_depth=0.5, max_depth=5, depth_miss="zero")
_STRETCH_ACTIONS = VelocityActions(look_range_deg=(-10.0, 10.0), stop_component=True)
_STRETCH_NOTES = (
    "The limit is 500 seconds in ObjectNav and 1,000 in InstanceImageNav, which are as many steps of 1 s. Ranges of "
    "velocities are those of Habitat-Lab's VelocityAction; the camera's pitch has that of the body's turns."
)

_ALL = (
    NavigationProtocol(
        name="pointnav-gibson-2019",
        source="Habitat Challenge 2019 (challenge_pointnav.local.rgbd.yaml); also that of DD-PPO (Wijmans et al. 2020)",
        task=PointNav(success_distance=0.2),
        camera=_DEFAULT_CAMERA,
        actions=DiscreteActions(forward_step=0.25, turn_angle_deg=10),
        navmesh_settings=_DEFAULT_BODY,
        geodesic="detour",
    ),
    NavigationProtocol(
        name="pointnav-2021",
        source="Habitat Challenges 2020 and 2021 (challenge_pointnav2020.local.rgbd.yaml)",
        notes="The camera looks down by 20 degrees, as in 2021. Habitat-Sim's table of distortion is left out.",
        task=PointNav(success_distance=0.36, goal_sensor=StaticPointGoal()),
        camera=Camera(
            640, 360, hfov_deg=70, eye_height=0.88, pitch_deg=-20, min_depth=0.1, max_depth=10, depth_miss="zero"
        ),
        sensor_noise={"rgb": GaussianNoise(intensity=0.1), "depth": RedwoodNoise(multiplier=1.0)},
        actions=DiscreteActions(forward_step=0.25, turn_angle_deg=30),
        actuation_noise=LoCoBotNoise(multiplier=0.5),
        sliding=False,
        navmesh_settings=_LOCOBOT,
        geodesic="detour",
    ),
    NavigationProtocol(
        name="objectnav-hm3d-2022",
        source="Habitat Challenge 2022 (challenge_objectnav2022.local.rgbd.yaml)",
        task=ObjectNav(success_distance=0.1, eye_height=0.88),
        camera=Camera(640, 480, hfov_deg=79, eye_height=0.88, min_depth=0.5, max_depth=5, depth_miss="zero"),
        actions=DiscreteActions(forward_step=0.25, turn_angle_deg=30, look_angle_deg=30),
        sliding=False,
        navmesh_settings=_LOCOBOT,
        geodesic="detour",
    ),
    NavigationProtocol(
        name="objectnav-2023",
        source="Habitat Challenge 2023, velocity control (objectnav_v2_hm3d_stretch_challenge.yaml)",
        notes=_STRETCH_NOTES,
        task=ObjectNav(success_distance=0.1, eye_height=1.31),
        camera=_STRETCH_CAMERA,
        actions=_STRETCH_ACTIONS,
        sliding=False,
        navmesh_settings=_STRETCH,
        geodesic="detour",
    ),
    NavigationProtocol(
        name="instanceimagenav-2023",
        source="Habitat Challenge 2023, velocity control (instance_imagenav_hm3d_v3_challenge.yaml)",
        notes=f"{_STRETCH_NOTES} Depth has the 42 degrees of RGB instead of 58. One goal camera takes all pictures.",
        task=InstanceImageNav(success_distance=0.1),
        camera=_STRETCH_CAMERA,
        sensors=("rgb", "depth", GPS(), Compass()),
        actions=_STRETCH_ACTIONS,
        sliding=False,
        max_episode_steps=1000,
        navmesh_settings=_STRETCH,
        geodesic="detour",
    ),
    NavigationProtocol(
        name="imagenav",
        source="Habitat-Lab (imagenav_gibson.yaml)",
        notes="Success within 1 m, as in Chaplot et al. 2020; Habitat-Lab's file leaves its general distance of 0.2 m.",
        task=ImageNav(success_distance=1.0, camera=Camera(256, 256)),
        camera=_DEFAULT_CAMERA,
        actions=DiscreteActions(forward_step=0.25, turn_angle_deg=10),
        max_episode_steps=1000,
        navmesh_settings=_DEFAULT_BODY,
        geodesic="detour",
    ),
    NavigationProtocol(
        name="bps-2021",
        source="Large Batch Simulation for Deep Reinforcement Learning (Shacklett et al., ICLR 2021) and its code",
        notes="docs/paper.md lists every difference. Depth; pass sensors=('rgb',) for the paper's other agents.",
        task=PointNav.bps_paper(),
        camera=Camera(64, 64, hfov_deg=90, eye_height=1.25, min_depth=0, max_depth=10),
        sensors=("depth",),
        actions=DiscreteActions(forward_step=0.25, turn_angle_deg=10),
        navmesh_settings=_DEFAULT_BODY,
    ),
)
PROTOCOLS: Mapping[str, NavigationProtocol] = {one.name: one for one in _ALL}


def protocol_of(protocol: str | NavigationProtocol) -> NavigationProtocol:
    """Return the protocol of a name, or a protocol unchanged.

    Raises:
        ValueError: The name is unknown.
    """
    if isinstance(protocol, NavigationProtocol):
        return protocol
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        known = ", ".join(map(repr, PROTOCOLS))
        raise ValueError(f"protocol={protocol!r}: choose one of {known}, or pass a NavigationProtocol")
    return PROTOCOLS[protocol]
