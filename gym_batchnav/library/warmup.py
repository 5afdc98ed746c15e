"""Workloads that compile the kernels that a program will need; see ``system.compilation``.

Each workload calls the package's own functions with small inputs, so that it compiles exactly the signatures that are
used. Workloads may overlap: a kernel that two workloads share is compiled by both if they run at the same time.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gym_batchnav.actions.choice import ACTIONS, make_actions
from gym_batchnav.episodes.normal import truncated_normal
from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.lenses import Fisheye
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import assets_dir
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.build.contours import merge_holes
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.noise.depth import RedwoodNoise, encode_depth
from gym_batchnav.noise.rgb import ColorJitter, GaussianNoise, PoissonNoise, SpeckleNoise
from gym_batchnav.render.api import RENDERERS, SENSOR_FORMATS, SENSORS, is_embree_installed, make_renderer
from gym_batchnav.render.interleave import NUM_GOAL_VALUES, interleave
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.scene import MASK
from gym_batchnav.scene.simplify import simplify_scene
from gym_batchnav.state import AgentState, Commands, StepOutcome, agent_state
from gym_batchnav.system.compilation import Compiled, Workload, compile_ahead, count_kernels
from gym_batchnav.system.numbers import check_choice
from gym_batchnav.system.progress import late_progress

_SMALL_SCENE = "apartment_4"  # the shipped scene with the smallest navmesh
_ROOM = np.array([[0, 0, 0], [4, 0, 0], [4, 0, 4], [0, 0, 4], [1, 0.6, 1], [2, 0.6, 1], [2, 0.6, 2]], np.float32)
_FLOOR = np.array([[0, 2, 1], [0, 3, 2], [4, 6, 5]], np.int32)
_TRIANGLE_OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\nf 1/1/1 2/1/1 3/1/1\n"


def warm_up(renderer: str = "auto") -> Compiled:
    """Compile every kernel that programs with a renderer may use, so that no later program waits; idempotent.

    Args:
        renderer: Name of the renderer; ``"auto"`` is the one that environments choose on this machine.

    Raises:
        ValueError: If the renderer is unknown.
    """
    check_choice("renderer", renderer, RENDERERS)
    drawing = [_drawing(renderer, colors, bodies) for colors in (True, False) for bodies in (False, True)]
    if is_embree_installed():
        drawing += [_drawing("embree", colors, bodies, True) for colors in (True, False) for bodies in (False, True)]
        drawing.append(_MASKS)
    moving = [make_actions(name).workload for name in ACTIONS]
    return compile_ahead(
        [
            *(*drawing, _PREPARING, _BUILDING, _QUERYING, _WALKING, _FOLLOWING, _STROLLING, _CROWDS),
            *(_DETOUR, _READING, _SIMPLIFYING, _NOISE, _IMAGE_NOISE, _JOINING),
            *(work for work in moving if work is not None),
            _MAPPING,
        ]
    )


def batch_workloads(
    renderer: str,
    sensors: Sequence[str],
    pictures: bool = False,
    prepares: bool = True,
    follows: bool = False,
    samples: bool = False,
    lenses: bool = False,
    bodies: bool = False,
    detour: bool = False,
    noise: bool = False,
    moving: Workload | None = None,
) -> list[Workload]:
    """Return the workloads of a batch of agents in scenes with navmeshes.

    Args:
        renderer: Name of the renderer.
        sensors: The sensors of the agents that are rendered.
        pictures: Whether colour pictures are drawn in addition.
        prepares: Whether scenes may have to be prepared; see ``NavigationPreparer.reads_shipped_episodes``.
        follows: Whether the shortest-path follower will be used.
        samples: Whether episodes may have to be sampled, as for scenes that are not shipped.
        lenses: Whether the agents have lenses or sensors that only ray tracers draw.
        bodies: Whether several bodies share a world.
        detour: Whether distances are measured as Detour does.
        noise: Whether images get noise.
        moving: ``Actions.workload`` of the agents.

    Raises:
        ValueError: If the renderer is unknown.
    """
    check_choice("renderer", renderer, RENDERERS)
    colors = "rgb" in sensors
    workloads = [_drawing(renderer, True, bodies)] if colors or pictures else []
    if sensors and not colors:
        workloads.append(_drawing(renderer, False, bodies))
    if lenses:
        workloads.append(_drawing(renderer, colors or pictures, bodies, True))
    if prepares:
        workloads.append(_PREPARING)
    workloads.append(_WALKING if moving is None else moving)
    optional = {_DETOUR: detour, _IMAGE_NOISE: noise, _FOLLOWING: follows, _QUERYING: samples}
    optional.update(dict.fromkeys((_CROWDS, _STROLLING), bodies))
    return [*workloads, *(work for work, needed in optional.items() if needed)]


def building_workloads(measures: bool = False, draws_with: str | None = None) -> list[Workload]:
    """Return the workloads of the navmesh builder, and optionally of distances on navmeshes and a renderer."""
    drawing = [] if draws_with is None else [_drawing(draws_with, True)]
    return [*drawing, _BUILDING, *([_PREPARING, _QUERYING] if measures else [])]


def kernels_of_commands(renderer: str = "auto") -> dict[str, dict[str, int]]:
    """Return, by command, how many kernels it needs for each purpose; one that serves several counts for the first.

    Args:
        renderer: Name of the renderer; see ``warm_up``.

    Raises:
        ValueError: If the renderer is unknown.
        CallFailed: If a kernel cannot be compiled.
    """
    own = batch_workloads(renderer, ("depth",), follows=True, samples=True)
    commands = {
        "demo, bench": batch_workloads(renderer, ("depth",), pictures=True, prepares=False, follows=True),
        "demo --scenes FILE": [*batch_workloads(renderer, ("depth",), True, follows=True, samples=True), _BUILDING],
        "view": batch_workloads(renderer, (), pictures=True, prepares=False, follows=True),
        "train, evaluate": [*own, _BUILDING, _MAPPING],
        "collect run": batch_workloads(renderer, ("rgb", "depth"), prepares=False, follows=True),
        "scene info": building_workloads(),
        "scene info --out": building_workloads(measures=True, draws_with=renderer),
        "scene prepare, scene generate, episodes": building_workloads(measures=True),
    }
    with late_progress("Counting kernels", len(commands)) as done:
        found = {}
        for command, workloads in commands.items():
            found[command] = count_kernels(workloads)
            done()
    return found


def draw_small_scene(
    renderer: str, colors: bool = True, bodies: bool = False, lens: bool = False, masks: bool = False
) -> None:
    """Draw a shipped scene with a renderer, or the one that ``"auto"`` chooses.

    Args:
        renderer: Name of the renderer.
        colors: Draw colours in addition to depth and semantic ids.
        bodies: Draw it with a moving body.
        lens: Draw through another lens than a pinhole, and with the sensors that only ray tracers have.
        masks: Draw it with masked and single-sided triangles.
    """
    scene = load_scene(assets_dir() / f"{_SMALL_SCENE}.glb")
    if masks:
        materials = scene.materials
        alone = np.full_like(materials.double_sided, False)
        scene = replace(scene, materials=replace(materials, alpha_mode=alone + np.uint8(MASK), double_sided=alone))
    library = SceneLibrary.from_scenes([scene])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent process chooses its renderer itself and warns
        drawer = make_renderer(renderer, library, bodies=library if bodies else None)
    camera = Camera(width=16, height=16, lens=Fisheye() if lens else None, cull_backfaces=masks)
    sensors = tuple(sensor for sensor in (SENSOR_FORMATS if lens else SENSORS) if colors or sensor != "rgb")
    middle = scene.bounds.mean(axis=0, keepdims=True).astype(np.float32)
    target = drawer.target(camera, sensors, num_views=1)
    target.render(np.zeros(1, np.int32), view_matrices(middle, np.zeros(1, np.float32), 0.0))
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
    """Build the navmesh of a floor with a table on it, and join a hole to its outline, which few floors need."""
    NavMesh.build(_ROOM, _FLOOR)
    corners = np.array([[0, 0, 0], [9, 0, 0], [9, 0, 9], [0, 0, 9]], np.int32)
    merge_holes(corners, [corners[::-1] // 3 + 3])


def walk_nowhere() -> None:
    """Move an agent in an empty slot, and measure its distance."""
    agents = NavMeshAgents(1)
    state = _nobody()
    flags = np.zeros(1, bool)
    still = np.zeros(1)
    metres = np.zeros(1, np.float32)
    outcome = StepOutcome(metres, flags.copy())
    agents.step(Commands(still, still, still, flags), state, flags, outcome, sliding=True)
    agents.distance(state.slot, state.polygon, state.position, np.zeros(1, np.int32), metres)
    agents.visible_floor(state.slot, state.polygon, state.position)


def follow_nowhere() -> None:
    """Compute the next action on the shortest path for an agent in an empty slot."""
    state = _nobody()
    places = state.slot, state.polygon, state.position
    goals = np.zeros(1, np.int32)
    NavMeshAgents(1).next_action(*places, state.heading, goals, forward_step=0.25, turn_angle=0.1, goal_radius=0.2)


def stroll_nowhere() -> None:
    """Compute the next walk on the shortest path for an agent in an empty slot."""
    state = _nobody()
    NavMeshAgents(1).next_walk(state.slot, state.polygon, state.position, np.zeros(1, np.int32), longest=0.25)


def measure_like_detour_nowhere() -> None:
    """Measure distances as Detour does: of an agent in an empty slot, and on a shipped navmesh."""
    state = _nobody()
    places = state.slot, state.polygon, state.position
    NavMeshAgents(1).distance(*places, np.zeros(1, np.int32), np.zeros(1, np.float32), method="detour")
    navmesh, points = _small_navmesh()
    navmesh.geodesic_distance(points, points[::-1], method="detour")
    navmesh.shortest_path(points[0], points[1], method="detour")


def draw_noise() -> None:
    """Draw the noise of one agent's motion."""
    truncated_normal(np.zeros((1, 3)), np.zeros((1, 3)), 3.0)


def join_small_images() -> None:
    """Make images of each kind of channels."""
    colors = np.zeros((1, 2, 2, 3), np.uint8)
    depth = np.zeros((1, 2, 2, 1), np.float32)
    levels = np.zeros((1, NUM_GOAL_VALUES), np.uint8)
    for rgb, seen, channels in ((colors, None, 3), (None, depth, 1), (colors, depth, 4)):
        image = np.empty((1, 2, 2, channels + NUM_GOAL_VALUES), np.uint8)
        interleave(rgb, seen, np.float32(255), levels, image)


def add_image_noise() -> None:
    """Add every kind of noise to small images."""
    keys = np.zeros(1, np.uint64)
    for noise in (GaussianNoise(), SpeckleNoise(), PoissonNoise(), ColorJitter()):
        noise.apply(np.zeros((1, 2, 2, 3), np.uint8), keys)
    depth = np.ones((1, 2, 2, 1), np.float32)
    RedwoodNoise().apply(depth, keys)
    encode_depth(depth, Camera().depth_encoding)


def read_small_obj() -> None:
    """Read an OBJ file of one triangle."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "triangle.obj"
        path.write_text(_TRIANGLE_OBJ, encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_scene(path)


def simplify_small_scene() -> None:
    """Simplify a shipped scene."""
    scene = load_scene(assets_dir() / f"{_SMALL_SCENE}.glb")
    simplify_scene(scene, len(scene.triangles) - 1)


_PREPARING = Workload("preparing navmeshes", prepare_small_navmesh)
_QUERYING = Workload("distances and maps", query_small_navmesh)
_BUILDING = Workload("the navmesh builder", build_small_navmesh)
_READING = Workload("reading OBJ", read_small_obj)
_SIMPLIFYING = Workload("simplifying scenes", simplify_small_scene)
_MASKS = Workload("drawing masked triangles", draw_small_scene, ("embree", True, False, False, True))
_WALKING = Workload("walking", walk_nowhere)
_FOLLOWING = Workload("following", follow_nowhere)
_STROLLING = Workload("walking on shortest paths", stroll_nowhere)
_CROWDS = Workload("bodies that meet", "gym_batchnav.worlds.crowd:separate_nobody")
_DETOUR = Workload("Detour's distances", measure_like_detour_nowhere)
_NOISE = Workload("noise of motors", draw_noise)
_IMAGE_NOISE = Workload("noise of images", add_image_noise)
_MAPPING = Workload("maps of what agents see", "gym_batchnav.mapping.sensors:map_small_image")
_JOINING = Workload("images of several channels", join_small_images)


def _drawing(renderer: str, colors: bool, bodies: bool = False, lens: bool = False) -> Workload:
    seen = ("colours" if colors else "depth") + (" and bodies" if bodies else "") + (" through lenses" if lens else "")
    return Workload(f"drawing {seen}", draw_small_scene, (renderer, colors, bodies, lens))


def _nobody() -> AgentState:
    state = agent_state(1)
    state.polygon[:] = -1
    return state
