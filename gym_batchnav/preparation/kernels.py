"""Workloads that compile the kernels that a program will need; see ``system.compilation``.

Each workload calls the package's own functions with small inputs, so that it compiles exactly the signatures that are
used. Workloads may overlap: a kernel that two workloads share is compiled by both if they
run at the same time.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
from numba import get_num_threads, set_num_threads

from gym_batchnav.episodes.normal import truncated_normal
from gym_batchnav.flight.agents import PARALLEL_FROM as FLYING_PARALLEL_FROM
from gym_batchnav.flight.agents import Dynamics, FlightAgents
from gym_batchnav.flight.air import find_air
from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.lenses import Fisheye
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import assets_dir
from gym_batchnav.mapping.drawing import Band, Maps, Poses, draw_all
from gym_batchnav.mapping.planning import Paths, follow_all
from gym_batchnav.mapping.sensors import view_of
from gym_batchnav.navmesh.agents import DETOUR_PARALLEL_FROM, PARALLEL_FROM, NavMeshAgents
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.noise.depth import RedwoodNoise, encode_depth
from gym_batchnav.noise.rgb import GaussianNoise, PoissonNoise, SpeckleNoise
from gym_batchnav.render.api import RENDERERS, SENSOR_FORMATS, SENSORS, is_embree_installed, make_renderer
from gym_batchnav.scene.load import load_scene
from gym_batchnav.state import AgentState, Commands, FlightCommands, StepOutcome, agent_state
from gym_batchnav.system.compilation import Compiled, Workload, compile_ahead

_SMALL_SCENE = "apartment_4"  # the shipped scene with the smallest navmesh
_ROOM = np.array([[0, 0, 0], [4, 0, 0], [4, 0, 4], [0, 0, 4], [1, 0.6, 1], [2, 0.6, 1], [2, 0.6, 2]], np.float32)
_FLOOR = np.array([[0, 2, 1], [0, 3, 2], [4, 6, 5]], np.int32)
_TRIANGLE_OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\nf 1/1/1 2/1/1 3/1/1\n"


def warm_up(processes: int | None = None, renderer: str = "auto") -> Compiled:
    """Compile every kernel of the package, of the renderers that of one, so that no later program waits; idempotent.

    Args:
        processes: Number of processes; one per processor, at most 8, by default.
        renderer: Name of the renderer; ``"auto"`` is the one that environments choose on this machine.

    Raises:
        ValueError: There is no such renderer.
    """
    if renderer not in RENDERERS:
        raise ValueError(f"renderer={renderer!r}: choose one of {', '.join(map(repr, RENDERERS))}")
    navigation = [work for num_agents in (PARALLEL_FROM, 1) for work in (_walking(num_agents), _following(num_agents))]
    lenses = [_LENSES] if is_embree_installed() else []
    return compile_ahead(
        [
            *(_drawing(renderer), *lenses, _PREPARING, _BUILDING, _QUERYING, *navigation),
            *(_DETOUR, _READING, _NOISE, _IMAGE_NOISE, _MAPPING, *_FLYING),
        ],
        processes,
    )


def warm_up_batch(
    num_envs: int,
    renderer: str,
    draws: bool,
    follows: bool = False,
    samples: bool = False,
    lenses: bool = False,
    detour: bool = False,
    noise: bool = False,
    flies: bool = False,
) -> None:
    """Compile the kernels of a batch of agents in scenes with navmeshes.

    Args:
        num_envs: Number of agents.
        renderer: Name of the renderer.
        draws: Whether the agents have any sensor that is rendered.
        follows: Whether the shortest-path follower will be used.
        samples: Whether episodes may have to be sampled, as for scenes that are not shipped.
        lenses: Whether the agents have lenses or sensors that only Embree draws.
        detour: Whether distances are measured as Detour does.
        noise: Whether images get noise.
        flies: Whether the agents fly.
    """
    workloads = [_drawing(renderer)] if draws else []
    if detour:
        workloads.append(_DETOUR)
    if noise:
        workloads.append(_IMAGE_NOISE)
    if lenses:
        workloads.append(_LENSES)
    workloads += _FLYING if flies else [_PREPARING, _walking(num_envs)]
    if follows:
        workloads.append(_following(num_envs))
    if samples:
        workloads.append(_QUERYING)
    compile_ahead(workloads)


def warm_up_building(measures: bool = False, draws_with: str | None = None) -> None:
    """Compile the navmesh builder, and optionally distances on navmeshes and a renderer."""
    drawing = [] if draws_with is None else [_drawing(draws_with)]
    compile_ahead([*drawing, _BUILDING, *([_PREPARING, _QUERYING] if measures else [])])


def draw_small_scene(renderer: str, lens: bool = False) -> None:
    """Draw all sensors of a shipped scene with a renderer, or the one that ``"auto"`` chooses.

    Args:
        renderer: Name of the renderer.
        lens: Draw through another lens than a pinhole, and with the sensors that only Embree has.
    """
    scene = load_scene(assets_dir() / f"{_SMALL_SCENE}.glb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent process chooses its renderer itself and warns
        drawer = make_renderer(renderer, SceneLibrary.from_scenes([scene]))
    camera = Camera(width=16, height=16, lens=Fisheye() if lens else None)
    all_sensors = tuple(SENSOR_FORMATS) if lens else SENSORS
    middle = scene.bounds.mean(axis=0, keepdims=True).astype(np.float32)
    views = view_matrices(middle, np.zeros(1, np.float32), 0.0)
    for sensors in (("depth",), all_sensors):
        target = drawer.target(camera, sensors, num_views=1)
        target.render(np.zeros(1, np.int32), views)
        target.close()
    drawer.close()


def prepare_small_navmesh() -> None:
    """Prepare a shipped navmesh for the agents of a batch."""
    navmesh, points = _small_navmesh()
    navmesh.tables(points)
    navmesh.visible_floor(points, navmesh.drops(_ROOM, _FLOOR))


def query_small_navmesh() -> None:
    """Run each kind of query on a shipped navmesh, as sampling of episodes and maps do."""
    navmesh, points = _small_navmesh()
    navmesh.geodesic_distance(points, points[::-1])
    navmesh.shortest_path(points[0], points[1])
    navmesh.distance_to_obstacle(points)
    navmesh.sight_distance(points, np.zeros((4, 1)), 1.0)
    navmesh.move(points, points + np.float32(0.1))
    navmesh.top_down_map(1.0)


def _small_navmesh() -> tuple[NavMesh, np.ndarray]:
    """Return the smallest shipped navmesh and some points [4, 3] on it."""
    navmesh = NavMesh.load(assets_dir() / f"{_SMALL_SCENE}.navmesh")
    return navmesh, navmesh.random_points(4, np.random.default_rng(0))


def build_small_navmesh() -> None:
    """Build the navmesh of a floor with a table on it."""
    NavMesh.build(_ROOM, _FLOOR)


def walk_nowhere(num_agents: int) -> None:
    """Move agents in an empty slot, and measure their distances."""
    agents = NavMeshAgents(1)
    state = _nobody(num_agents)
    flags = np.zeros(num_agents, bool)
    still = np.zeros(num_agents)
    metres = np.zeros(num_agents, np.float32)
    outcome = StepOutcome(metres, flags.copy())
    agents.step(Commands(still, still, still, flags), state, flags, outcome, sliding=True)
    agents.distance(state.slot, state.polygon, state.position, np.zeros(num_agents, np.int32), metres)
    agents.visible_floor(state.slot, state.polygon, state.position)


def follow_nowhere(num_agents: int) -> None:
    """Compute the next action and the next walk on the shortest path for agents in an empty slot."""
    goals = np.zeros(num_agents, np.int32)
    state = _nobody(num_agents)
    places = state.slot, state.polygon, state.position
    NavMeshAgents(1).next_action(*places, state.heading, goals, forward_step=0.25, turn_angle=0.1, goal_radius=0.2)
    NavMeshAgents(1).next_walk(*places, goals, longest=0.25)


def measure_like_detour_nowhere() -> None:
    """Measure distances as Detour does: of few and of many agents in an empty slot, and on a shipped navmesh."""
    for num_agents in (1, DETOUR_PARALLEL_FROM):
        state = _nobody(num_agents)
        places = state.slot, state.polygon, state.position
        metres = np.zeros(num_agents, np.float32)
        NavMeshAgents(1).distance(*places, np.zeros(num_agents, np.int32), metres, method="detour")
    navmesh, points = _small_navmesh()
    navmesh.geodesic_distance(points, points[::-1], method="detour")
    navmesh.shortest_path(points[0], points[1], method="detour")


def fly_in_small_room(num_agents: int) -> None:
    """Find the air of a small room, and fly agents there."""
    corners = _ROOM[_FLOOR]
    floor = np.random.default_rng(0).uniform(0.2, 3.8, (50, 3)).astype(np.float32) * np.array([1, 0, 1], np.float32)
    air = find_air(corners, floor, 0.3, 0.3)
    air = air.with_goals(air.random_points(1, np.random.default_rng(0)))
    air.is_free(air.fields.goals)
    air.distance(air.fields.goals, np.zeros(1, np.int32))
    agents = FlightAgents(1, Dynamics(5.0, 1.0, 0.2, 1))
    agents.use_memory(agents.memory(num_agents))
    agents.set_slot(0, air)
    state = _nobody(num_agents)
    flags = np.zeros(num_agents, bool)
    still = np.zeros(num_agents)
    metres = np.zeros(num_agents, np.float32)
    outcome = StepOutcome(metres, flags.copy())
    agents.step(FlightCommands(still, still, still, still, flags), state, flags, outcome, sliding=True)
    agents.distance(state.slot, state.polygon, state.position, np.zeros(num_agents, np.int32), metres)


def draw_noise() -> None:
    """Draw the noise of one agent's motion."""
    truncated_normal(np.zeros((1, 3)), np.zeros((1, 3)), 3.0)


def add_image_noise() -> None:
    """Add every kind of noise to small images."""
    keys = np.zeros(1, np.uint64)
    for noise in (GaussianNoise(), SpeckleNoise(), PoissonNoise()):
        noise.apply(np.zeros((1, 2, 2, 3), np.uint8), keys)
    depth = np.ones((1, 2, 2, 1), np.float32)
    RedwoodNoise().apply(depth, keys)
    encode_depth(depth, Camera().depth_encoding)


def map_small_image() -> None:
    """Draw a map of one small image, and plan a path on it."""
    maps = Maps(np.zeros((1, 16, 16), np.uint8), np.zeros((1, 3)), np.zeros(1, np.int32), np.zeros((1, 3)), 0.1)
    paths = Paths(np.zeros((1, 8, 2), np.int16), maps.counts, np.zeros(1, np.int32), np.zeros((1, 2)), 1.0)
    rows = np.zeros(1, np.int64)
    depth = np.ones((1, 2, 2, 1), np.float32)
    point = np.zeros((1, 3))
    zero = np.zeros(1)
    poses = Poses(point, zero, rows, zero, zero, zero)
    set_num_threads(get_num_threads())  # starts them
    draw_all(maps, rows, depth, poses, view_of(Camera(2, 2)), Band(0.2, 0.0, 1.5))
    follow_all(maps, paths, rows, poses, point, np.zeros((1, 4), np.float32))


def read_small_obj() -> None:
    """Read an OBJ file of one triangle."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "triangle.obj"
        path.write_text(_TRIANGLE_OBJ, encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_scene(path)


_PREPARING = Workload("preparing navmeshes", prepare_small_navmesh)
_QUERYING = Workload("distances and maps", query_small_navmesh)
_BUILDING = Workload("the navmesh builder", build_small_navmesh)
_READING = Workload("reading OBJ", read_small_obj)
_LENSES = Workload("drawing through lenses", draw_small_scene, ("embree", True))
_DETOUR = Workload("Detour's distances", measure_like_detour_nowhere)
_FLYING = [Workload("flying", fly_in_small_room, (count,)) for count in (1, FLYING_PARALLEL_FROM)]
_NOISE = Workload("noise of motors", draw_noise)
_IMAGE_NOISE = Workload("noise of images", add_image_noise)
_MAPPING = Workload("maps of what agents see", map_small_image)


def _drawing(renderer: str) -> Workload:
    return Workload("drawing", draw_small_scene, (renderer,))


def _walking(num_agents: int) -> Workload:
    """Return the workload for a number of agents; few agents use other kernels than many."""
    return Workload("walking", walk_nowhere, (PARALLEL_FROM if num_agents >= PARALLEL_FROM else 1,))


def _following(num_agents: int) -> Workload:
    return Workload("following", follow_nowhere, (PARALLEL_FROM if num_agents >= PARALLEL_FROM else 1,))


def _nobody(num_agents: int) -> AgentState:
    """Return agents that are on no polygon."""
    state = agent_state(num_agents)
    state.polygon[:] = -1
    return state
