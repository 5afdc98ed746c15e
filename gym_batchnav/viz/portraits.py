"""How a batch, a scene and a navmesh show themselves in notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.bundle import Portrait, mime_bundle
from gym_batchnav.viz.facts import (
    counted,
    describe_navmesh,
    describe_scene,
    islands_in_words,
    listed,
    scene_in_words,
    size_in_words,
)
from gym_batchnav.viz.floors import storeys, visible_floor_and_cut
from gym_batchnav.viz.maps import (
    TopDownMap,
    draw_agents,
    draw_outline,
    draw_trajectories,
    navmesh_map,
    scene_map,
    storey_map,
)
from gym_batchnav.viz.overviews import navmesh_overview, storeys_beside
from gym_batchnav.viz.sheets import captioned, mosaic, side_by_side
from gym_batchnav.viz.views import AgentViews

MAX_VIEWS = 36  # of a batch
_SHEET, _SMALLEST, _LARGEST = 576, 96, 256  # pixels across the views of one sensor, and across one view
_THIN = 12  # pixels of a view at least
_MAP, _SMALL_MAP = 560, 400  # pixels along a map, and along each of several
_HOUSE = 6.0  # metres: what is lower is cut like a house
_MANY_TRIANGLES = 400_000  # more are thinned out before they are drawn
_MANY_TEXTURES = 256_000_000  # bytes; more are left out
_QUICK_TRIANGLES, _QUICK_AREA = 200_000, 600.0  # a navmesh is built for scenes of so many, and square metres
_MOST_NOTES = 8


def batch_bundle(
    env: BatchNavEnv, under_way: bool, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """What the agents of a batch see beside its settings; ``under_way`` says that a step was sent and not received."""
    title = f"{type(env).__name__}: {counted(env.num_envs, 'environment')}"
    tell, draw = partial(_batch_facts, env), partial(_batch_picture, env, under_way)
    return mime_bundle(partial(repr, env), title, tell, draw, include, exclude)


def scene_bundle(scene: Scene, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, Any]:
    """A scene from above beside its counts."""
    find = cache(partial(_navmesh_of, scene))
    return mime_bundle(
        partial(repr, scene),
        f"Scene {scene.name}",
        lambda: _scene_facts(scene, *find()),
        lambda: _scene_picture(scene, find()[0]),
        include,
        exclude,
    )


def navmesh_bundle(
    navmesh: NavMesh, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """A navmesh from above beside its counts."""
    tell, draw = partial(_navmesh_facts, navmesh), partial(_navmesh_picture, navmesh)
    return mime_bundle(partial(repr, navmesh), "NavMesh", tell, draw, include, exclude)


def _batch_facts(env: BatchNavEnv) -> dict[str, str]:
    """The settings of a batch, and how far it has come; nothing is made or loaded for them."""
    simulator, cameras, episodes = env.simulator, env.cameras, env.episodes
    library, camera = env.library, env.cameras.camera
    active = [library.name(slot) for slot in np.unique(library.active).tolist()]
    space = cast(spaces.Dict, env.single_observation_space)
    seen = [f"{name} {list(one.shape or ())} {one.dtype}" for name, one in space.items()]
    ready = bool(simulator.begun.all())
    turn = f"{np.degrees(simulator.turn_angle):g} degrees"
    facts = {
        "state": _state(env, ready),
        "scenes": f"{len(active)} resident of {len(library.names)} listed: {listed(active)}",
        "sensors": ", ".join(cameras.sensors) or "none: the agents are blind",
        "camera": f"{camera.width} x {camera.height}, {camera.hfov_deg:g} degrees across, {camera.eye_height:g} m high",
        "observations": "; ".join(seen),
        "actions": f"0 STOP, 1 MOVE_FORWARD {simulator.forward_step:g} m, 2 TURN_LEFT and 3 TURN_RIGHT "
        f"{turn}, {'sliding' if simulator.sliding else 'stopping'} at walls",
        "task": repr(env.task),
        "episodes": f"{simulator.schedule.order!r} of {env.num_episodes:,}, at most {env.max_episode_steps} steps each",
        "autoreset": env.autoreset_mode.name.lower(),
        "device": f"observations on {cameras.device}",
    }
    if ready and cameras.sensors and not env.closed:
        facts["renderer"] = f"{env.renderer.name} on {env.renderer.device}"
    if ready:
        first, last = int(episodes.num_steps.min()), int(episodes.num_steps.max())
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        begun, ended = counted(int(episodes.count.sum()), "episode"), int(episodes.done.sum())
        facts["so far"] = f"{begun} begun since seeding; the present ones are at {steps}, {ended} of them ended"
    return facts


def _state(env: BatchNavEnv, ready: bool) -> str:
    """What can be done with a batch now."""
    if env.closed:
        return "closed"
    if not ready:
        return "not reset yet: reset() begins episodes"
    return "under way"


def _batch_picture(env: BatchNavEnv, under_way: bool) -> Portrait:
    """What some of the agents see, one sheet a sensor; of blind ones, where they are."""
    if env.closed:
        return None, "closed: no pictures"
    if not env.simulator.begun.all():
        return None, "no pictures before the first reset"
    if under_way:
        return None, "no pictures between send() and recv()"
    if not env.cameras.sensors:
        return _blind_picture(env)
    some, camera = _some_of(np.arange(env.num_envs)), env.cameras.camera
    columns = int(np.ceil(np.sqrt(len(some) * camera.height / camera.width)))
    views = AgentViews(env, env.cameras.sensors, min(_LARGEST, max(_SMALLEST, _SHEET // columns)), len(some))
    try:
        seen = views.of(some)
    finally:
        views.close()
    meanings = {"depth": f"depth, black at {camera.max_depth:g} m", "semantic": "semantic, a colour an object"}
    sheets = [
        captioned(mosaic(_thickened(pictures), columns), meanings.get(sensor, sensor))
        for sensor, pictures in seen.items()
    ]
    return side_by_side(sheets), f"what {_share(len(some), env.num_envs)} see{'s' if env.num_envs == 1 else ''}"


def _thickened(pictures: np.ndarray) -> np.ndarray:
    """Pictures [M, H, W, 3] with rows and columns repeated until they can be seen: a scan may be one pixel high."""
    for axis in (1, 2):
        pictures = np.repeat(pictures, -(-_THIN // pictures.shape[axis]), axis)
    return pictures


def _blind_picture(env: BatchNavEnv) -> Portrait:
    """The agents of the scene that has most, on its navmesh."""
    slot = int(np.bincount(env.agents.slot).argmax())
    here = np.flatnonzero(env.agents.slot == slot)
    some = _some_of(here)
    position = env.agents.position[some]
    top_down = navmesh_map(env.simulator.navmesh(slot), _MAP, height=position[:, 1])
    picture = draw_trajectories(top_down, list(position[:, None]), env.episodes.goal[some])
    picture = draw_agents(picture, top_down, position, env.agents.heading[some])
    return picture, f"{_share(len(some), len(here))} in {env.library.name(slot)}, and their goals"


def _scene_facts(scene: Scene, navmesh: NavMesh | None, reason: str) -> dict[str, str]:
    """The counts of a scene, and its walkable area."""
    facts = describe_scene(scene)
    facts |= {"walkable": reason} if navmesh is None else describe_navmesh(navmesh)
    return scene_in_words(facts, _MOST_NOTES)


def _scene_picture(scene: Scene, navmesh: NavMesh | None) -> Portrait:
    """A scene from above, with the ceiling off where it has level floors."""
    drawn = _lightened(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which renderer it is does not matter here
        renderer = make_renderer("auto", SceneLibrary.from_scenes([drawn]))
    try:
        if navmesh is None:
            bottom, top = drawn.bounds[:, 1].tolist()
            house = top - bottom < _HOUSE
            cut = visible_floor_and_cut(drawn, bottom)[1] if house else top + 1
            above = scene_map(renderer, drawn, 0, _MAP, bottom, cut - bottom)
            return _scaled(above), f"from above, cut at {cut:.1f} m" if house else "from above"
        floors = storeys(navmesh)
        size = _MAP if len(floors) < 2 else _SMALL_MAP
        heights = floors or [0.0]  # any, of a landscape
        maps = [storey_map(renderer, drawn, 0, navmesh, size, height) for height in heights]
    finally:
        renderer.close()
    pictures = [_scaled(draw_outline(above, navmesh)) for above in maps]
    what = "from above, cut below the ceiling" if floors else "from above"
    return storeys_beside(pictures, floors), f"{what}; green: where one can walk"


def _scaled(top_down: TopDownMap) -> np.ndarray:
    """The picture of a map with nothing but its scale on it."""
    return draw_trajectories(top_down, [])


def _lightened(scene: Scene) -> Scene:
    """A scene that is quickly drawn from above: of very many triangles only some, each larger, and not all textures."""
    stride = -(-len(scene.triangles) // _MANY_TRIANGLES)
    if stride > 1:
        soup = scene.vertices[scene.triangles[::stride]].astype(np.float32)
        middle = soup.mean(axis=1, keepdims=True)
        corners = scene.triangles[::stride].reshape(-1)
        scene = replace(
            scene,
            vertices=(middle + np.sqrt(np.float32(stride)) * (soup - middle)).reshape(-1, 3),
            triangles=np.arange(len(corners), dtype=np.int32).reshape(-1, 3),
            triangle_material=scene.triangle_material[::stride],
            triangle_object=scene.triangle_object[::stride],
            uvs=None if scene.uvs is None else scene.uvs[corners],
            colors=None if scene.colors is None else scene.colors[corners],
        )
    if sum(picture.nbytes for picture in scene.textures) > _MANY_TEXTURES:
        bare = replace(scene.materials, texture=np.full_like(scene.materials.texture, -1))
        scene = replace(scene, textures=(), materials=bare)
    return scene


def _navmesh_of(scene: Scene) -> tuple[NavMesh | None, str]:
    """Where one can walk in a scene, if that is known or quickly found, and how it was."""
    if scene.navmesh is not None:
        return scene.navmesh, "the navmesh that came with it"
    many = len(scene.triangles) > _QUICK_TRIANGLES
    if many or (len(scene.vertices) and np.prod(np.ptp(scene.bounds[:, [0, 2]], axis=0)) > _QUICK_AREA):
        return None, "not looked for in a scene of this size: NavMesh.build(scene.vertices, scene.triangles) does"
    try:
        return NavMesh.build(scene.vertices, scene.triangles, NavMeshSettings()), "built for Habitat's agent"
    except ValueError as error:
        return None, str(error)


def _navmesh_facts(navmesh: NavMesh) -> dict[str, str]:
    """The counts of a navmesh."""
    agent = navmesh.settings
    areas = sorted((island.area for island in navmesh.islands), reverse=True)
    return {
        "walkable": f"{navmesh.navigable_area:,.1f} m2",
        "islands": islands_in_words(areas),
        "polygons": f"{navmesh.num_polygons:,}, with {len(navmesh.vertices):,} vertices",
        "size": size_in_words(np.ptp(navmesh.bounds, axis=0)),
        "agent": f"radius {agent.agent_radius:g} m, height {agent.agent_height:g} m; climbs steps of "
        f"{agent.agent_max_climb:g} m and slopes of {agent.agent_max_slope_deg:g} degrees",
        "built of": f"cells {agent.cell_size:g} m wide and {agent.cell_height:g} m high",
    }


def _navmesh_picture(navmesh: NavMesh) -> Portrait:
    """A navmesh from above."""
    size = _MAP if len(storeys(navmesh)) < 2 else _SMALL_MAP
    return navmesh_overview(navmesh, size), "the walkable area, one shade per island"


def _some_of(indices: np.ndarray) -> np.ndarray:
    """At most ``MAX_VIEWS`` of some indices, evenly spread."""
    return indices[np.unique(np.linspace(0, len(indices) - 1, min(MAX_VIEWS, len(indices))).astype(int))]


def _share(some: int, count: int) -> str:
    """How many agents of how many."""
    if some < count:
        return f"{some} of {counted(count, 'agent')}"
    return "the agent" if count == 1 else f"all {count} agents"
