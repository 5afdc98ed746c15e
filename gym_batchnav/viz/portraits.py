"""How a batch, a scene and a navmesh show themselves in notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from gym_batchnav.batch import NavBatch
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.library import SceneLibrary
from gym_batchnav.scene.mesh import Scene
from gym_batchnav.viz.bundle import Drawing, mime_bundle
from gym_batchnav.viz.maps import draw_agents, draw_outline, draw_trajectories, navmesh_map, scene_map
from gym_batchnav.viz.sheets import mosaic, side_by_side, titled
from gym_batchnav.viz.views import AgentViews

MAX_VIEWS = 36  # of a batch
_SHEET, _SMALLEST, _LARGEST = 576, 96, 256  # pixels across the views of one sensor, and across one view
_MAP = 560  # pixels
_MANY_TRIANGLES = 400_000  # more are thinned out before they are drawn
_MANY_TEXTURES = 256_000_000  # bytes; more are left out
_QUICK_TRIANGLES, _QUICK_AREA = 200_000, 600.0  # a navmesh is built for scenes of so many, and square metres
_LEVEL = 0.4  # metres within which a floor counts as level
_FEW = 4  # names that are listed


def batch_bundle(
    env: NavBatch, under_way: bool, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """What the agents of a batch see beside its settings; ``under_way`` says that a step was sent and not received."""
    title = f"{type(env).__name__}: {_counted(env.num_envs, 'environment')}"
    tell, draw = partial(_batch_facts, env), partial(_batch_picture, env, under_way)
    return mime_bundle(repr(env), title, tell, draw, include, exclude)


def scene_bundle(scene: Scene, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, Any]:
    """A scene from above beside its counts."""
    find = cache(partial(_navmesh_of, scene))
    return mime_bundle(
        repr(scene),
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
    return mime_bundle(repr(navmesh), "NavMesh", tell, draw, include, exclude)


def _batch_facts(env: NavBatch) -> dict[str, str]:
    """The settings of a batch, and how far it has come; nothing is made or loaded for them."""
    simulator, cameras, episodes = env.simulator, env.cameras, env.episodes
    library, camera = env.library, env.cameras.camera
    active = [library.name(slot) for slot in np.unique(library.active).tolist()]
    space = cast(spaces.Dict, env.single_observation_space)
    seen = [f"{name} {list(one.shape or ())} {one.dtype}" for name, one in space.items()]
    ready = bool(simulator.begun.all())
    facts = {
        "state": _state(env, ready),
        "scenes": f"{len(active)} resident of {len(library.names)} listed: {_listed(active)}",
        "sensors": ", ".join(cameras.sensors) or "none: the agents are blind",
        "camera": f"{camera.width} x {camera.height}, {camera.hfov_deg:g} degrees across, {camera.eye_height:g} m high",
        "observations": "; ".join(seen),
        "actions": f"0 STOP, 1 MOVE_FORWARD {simulator.forward_step:g} m, 2 TURN_LEFT and 3 TURN_RIGHT "
        f"{np.degrees(simulator.turn_angle):g} degrees, {'sliding' if simulator.sliding else 'stopping'} at walls",
        "task": repr(env.task),
        "episodes": f"{simulator.schedule.mode!r} of {env.num_episodes:,}, at most {env.max_episode_steps} steps each",
        "autoreset": env.autoreset_mode.name.lower(),
        "device": f"observations on {cameras.device}",
    }
    if ready and cameras.sensors and not env.closed:
        facts["renderer"] = f"{env.renderer.name} on {env.renderer.device}"
    if ready:
        steps = episodes.num_steps
        facts["so far"] = (
            f"{int(episodes.count.sum()):,} episodes begun since seeding; the present ones have {steps.min()} to "
            f"{steps.max()} steps, {int(episodes.done.sum())} of them ended"
        )
    return facts


def _state(env: NavBatch, ready: bool) -> str:
    """What can be done with a batch now."""
    if env.closed:
        return "closed"
    if not ready:
        return "not reset yet: reset() begins episodes"
    open_parts = sum(not part.closed for part in env.parts)
    return f"split into {_counted(len(env.parts), 'part')}, which step by themselves" if open_parts else "under way"


def _batch_picture(env: NavBatch, under_way: bool) -> Drawing:
    """What some of the agents see, one sheet a sensor; of blind ones, where they are."""
    if env.closed:
        return None, "closed: no pictures"
    if not env.simulator.begun.all():
        return None, "no pictures before the first reset"
    if under_way:
        return None, "no pictures between send() and recv()"
    if not env.cameras.sensors:
        return _blind_picture(env)
    some = _some_of(np.arange(env.num_envs))
    columns = int(np.ceil(np.sqrt(len(some))))
    views = AgentViews(env, env.cameras.sensors, min(_LARGEST, max(_SMALLEST, _SHEET // columns)), len(some))
    try:
        sheets = [titled(mosaic(pictures, columns), sensor) for sensor, pictures in views.of(some).items()]
    finally:
        views.close()
    return side_by_side(sheets), f"what {len(some)} of {_counted(env.num_envs, 'agent')} see"


def _blind_picture(env: NavBatch) -> Drawing:
    """The agents of the scene that has most, on its navmesh."""
    slot = int(np.bincount(env.agents.scene).argmax())
    here = np.flatnonzero(env.agents.scene == slot)
    some = _some_of(here)
    top_down = navmesh_map(env.navmesh(slot), _MAP)
    position = env.agents.position[some]
    picture = draw_trajectories(top_down, list(position[:, None]), env.episodes.goal[some])
    picture = draw_agents(picture, top_down, position, env.agents.heading[some])
    return picture, f"{len(some)} of {_counted(len(here), 'agent')} in {env.library.name(slot)}, and their goals"


def _scene_facts(scene: Scene, navmesh: NavMesh | None, reason: str) -> dict[str, str]:
    """The counts of a scene, and where one can walk in it."""
    pixels = sum(picture.shape[0] * picture.shape[1] for picture in scene.textures)
    walkable = reason
    if navmesh is not None:
        walkable = f"{navmesh.navigable_area:.1f} m2 on {_counted(navmesh.num_islands, 'island')} ({reason})"
    return {
        "triangles": f"{len(scene.triangles):,}",
        "vertices": f"{len(scene.vertices):,}",
        "objects": f"{len(scene.objects):,}",
        "materials": f"{len(scene.materials):,}",
        "textures": f"{len(scene.textures):,}, {pixels / 1e6:.1f} million pixels",
        "size": _size(scene.bounds) if len(scene.vertices) else "nothing",
        "memory": f"{scene.nbytes / 1e6:.1f} MB",
        "walkable": walkable,
        **{f"note {number}": sentence for number, sentence in enumerate(scene.warnings[:8], start=1)},
    }


def _scene_picture(scene: Scene, navmesh: NavMesh | None) -> Drawing:
    """A scene from above, with the ceiling off where it has level floors."""
    drawn = _lightened(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which renderer it is does not matter here
        renderer = make_renderer("auto", SceneLibrary.from_scenes([drawn]))
    try:
        bottom, top = drawn.bounds[:, 1].tolist()
        floor = _main_floor(navmesh) if navmesh is not None else (bottom if top - bottom < 6 else None)
        if floor is None:
            top_down, what = scene_map(renderer, drawn, 0, _MAP, bottom, cut=top - bottom + 1), "from above"
        else:
            top_down, what = scene_map(renderer, drawn, 0, _MAP, floor), f"from above, cut 2 m over {floor:.1f} m"
    finally:
        renderer.close()
    if navmesh is not None:
        low, high = (-np.inf, np.inf) if floor is None else (floor - 0.5, floor + 2)
        top_down, what = draw_outline(top_down, navmesh, low, high), f"{what}; green: where one can walk"
    return draw_trajectories(top_down, []), what


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
    across, _, along = np.ptp(scene.bounds, axis=0) if len(scene.vertices) else np.zeros(3)
    if len(scene.triangles) > _QUICK_TRIANGLES or across * along > _QUICK_AREA:
        return None, "not looked for in a scene of this size: NavMesh.build(scene.vertices, scene.triangles) does"
    try:
        return NavMesh.build(scene.vertices, scene.triangles, NavMeshSettings()), "built for Habitat's agent"
    except ValueError as error:
        return None, str(error)


def _main_floor(navmesh: NavMesh) -> float | None:
    """Height of the level that most of the walkable area lies on, metres; None for a landscape, which has none."""
    used = navmesh.polygons >= 0
    heights = np.where(used, navmesh.vertices[navmesh.polygons, 1], 0).sum(axis=1) / used.sum(axis=1)
    area = navmesh.polygon_area
    bins = np.round((heights - heights.min()) / _LEVEL).astype(int)
    at = bins == np.bincount(bins, area).argmax()
    return float(np.average(heights[at], weights=area[at])) if area[at].sum() >= 0.1 * area.sum() else None


def _navmesh_facts(navmesh: NavMesh) -> dict[str, str]:
    """The counts of a navmesh."""
    areas = sorted((island.area for island in navmesh.islands), reverse=True)
    return {
        "walkable": f"{navmesh.navigable_area:.1f} m2",
        "islands": f"{len(areas)}: {_listed([f'{area:.1f}' for area in areas])} m2",
        "polygons": f"{navmesh.num_polygons:,}, with {len(navmesh.vertices):,} vertices",
        "size": _size(navmesh.bounds),
        "agent": repr(navmesh.settings),
    }


def _navmesh_picture(navmesh: NavMesh) -> Drawing:
    """A navmesh from above."""
    return draw_trajectories(navmesh_map(navmesh, _MAP), []), "where one can walk, one shade an island"


def _some_of(indices: np.ndarray) -> np.ndarray:
    """At most ``MAX_VIEWS`` of some indices, evenly spread."""
    return indices[np.unique(np.linspace(0, len(indices) - 1, min(MAX_VIEWS, len(indices))).astype(int))]


def _listed(names: Sequence[str]) -> str:
    """The first few of some names."""
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


def _size(bounds: np.ndarray) -> str:
    return " x ".join(f"{length:.2f}" for length in np.ptp(bounds, axis=0)) + " m (x, y up, z)"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
