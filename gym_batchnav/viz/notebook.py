"""Notebook displays of a batch, a scene and a navmesh."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from html import escape
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from PIL import Image

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.cameras import key_of
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.wording import counted
from gym_batchnav.viz.facts import (
    describe_navmesh,
    describe_scene,
    islands_in_words,
    listed,
    scene_in_words,
    size_in_words,
)
from gym_batchnav.viz.floors import storeys, visible_floor_and_cut
from gym_batchnav.viz.maps import draw_agents, draw_outline, draw_trajectories, navmesh_map, scene_map, storey_map
from gym_batchnav.viz.overviews import navmesh_overview, storeys_beside
from gym_batchnav.viz.sheets import captioned, evenly_spread, mosaic, side_by_side
from gym_batchnav.viz.views import AgentViews

MAX_VIEWS = 36  # of a batch
_SHEET = 576  # pixels across all views of one sensor
_SMALLEST = 96  # pixels across one view
_LARGEST = 256
_MIN_PIXELS = 12  # per side of a view
_MAP = 560  # pixels along a map, and along each of several
_SMALL_MAP = 400
_HOUSE = 6.0  # metres; lower scenes are cut like houses
_MANY_TRIANGLES = 400_000  # of more, only a part is drawn
_MANY_TEXTURES = 256_000_000  # bytes; larger textures are left out
_QUICK_TRIANGLES = 200_000  # no navmesh is built for scenes of more triangles or area
_QUICK_AREA = 600.0  # square metres
_MAX_NOTES = 8
Portrait = tuple[np.ndarray | None, str]  # an image [H, W, 3] uint8 or None, and its caption or the reason for None
_MAX_FACT = 400  # characters of a fact, and of the plain text
_MAX_TEXT = 4000
# Colours are inherited from the page, so that they are readable on light and dark backgrounds.
_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;background:transparent;color:inherit;border:0"


def batch_bundle(
    env: BatchNavEnv, in_flight: bool, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """Show the agents' views and the settings; ``in_flight`` says whether a step was sent but not received."""
    title = f"{type(env).__name__}: {counted(env.num_envs, 'environment')}"
    facts = partial(_batch_facts, env)
    draw = partial(_batch_picture, env, in_flight)
    return mime_bundle(partial(repr, env), title, facts, draw, include, exclude)


def scene_bundle(scene: Scene, include: Collection[str] | None, exclude: Collection[str] | None) -> dict[str, Any]:
    """Show a scene from above and its counts."""
    find = cache(partial(_navmesh_of, scene))

    def facts() -> dict[str, str]:
        navmesh, reason = find()
        walkable = {"walkable": reason} if navmesh is None else describe_navmesh(navmesh)
        return scene_in_words(describe_scene(scene) | walkable, _MAX_NOTES)

    def draw() -> Portrait:
        return _scene_picture(scene, find()[0])

    return mime_bundle(partial(repr, scene), f"Scene {scene.name}", facts, draw, include, exclude)


def navmesh_bundle(
    navmesh: NavMesh, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """Show a navmesh from above and its counts."""

    def draw() -> Portrait:
        size = _MAP if len(storeys(navmesh)) < 2 else _SMALL_MAP
        return navmesh_overview(navmesh, size), "the walkable area, one shade per island"

    return mime_bundle(partial(repr, navmesh), "NavMesh", partial(_navmesh_facts, navmesh), draw, include, exclude)


def _actions_text(actions: Actions) -> str:
    """Return the discrete actions with their amounts, or the settings of other actions."""
    if not isinstance(actions, DiscreteActions):
        return repr(actions)
    text = f"0 STOP, 1 MOVE_FORWARD {actions.forward_step:g} m, 2 TURN_LEFT and 3 TURN_RIGHT"
    text += f" {actions.turn_angle_deg:g} degrees"
    if actions.look_angle_deg is None:
        return text
    return f"{text}, 4 LOOK_UP and 5 LOOK_DOWN {actions.look_angle_deg:g} degrees"


def _batch_facts(env: BatchNavEnv) -> dict[str, str]:
    """Return the settings and the progress of a batch; nothing is created or loaded for them."""
    simulator = env.simulator
    cameras = env.cameras
    episodes = env.episodes
    library = env.library
    active = [library.name(slot) for slot in np.unique(library.active).tolist()]
    space = cast(spaces.Dict, env.single_observation_space)
    seen = [f"{name} {list(one.shape or ())} {one.dtype}" for name, one in space.items()]
    ready = bool(simulator.begun.all())
    facts = {
        "state": "closed" if env.closed else "running" if ready else "not reset yet: reset() begins episodes",
        "scenes": f"{len(active)} resident of {len(library.names)} listed: {listed(active)}",
        "sensors": ", ".join(cameras.rig.keys) or "none: the agents are blind",
        "camera": "; ".join(map(_camera_in_words, cameras.rig.cameras, cameras.rig.cameras.values())),
        "observations": "; ".join(seen),
        "actions": f"{_actions_text(simulator.actions)}, {'sliding' if simulator.sliding else 'stopping'} at walls",
        "task": repr(env.task),
        "episodes": f"{simulator.schedule.order!r} of {env.num_episodes:,}, at most {env.max_episode_steps} steps each",
        "autoreset": env.autoreset_mode.name.lower(),
        "device": f"observations on {cameras.device}",
    }
    if ready and cameras.rig.keys and not env.closed:
        facts["renderer"] = f"{env.renderer.name} on {env.renderer.device}"
    if ready:
        first = int(episodes.num_steps.min())
        last = int(episodes.num_steps.max())
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        begun = counted(int(episodes.count.sum()), "episode")
        ended = int(episodes.done.sum())
        facts["so far"] = f"{begun} begun since seeding; the current ones are at {steps}, {ended} of them have ended"
    return facts


def _camera_in_words(name: str, camera: Camera) -> str:
    """Return the size, field of view and place of a camera."""
    words = f"{name}: " if name else ""
    lens = f"{camera.hfov_deg:g} degrees across" if camera.lens is None else repr(camera.lens)
    words += f"{camera.width} x {camera.height}, {lens}, {camera.eye_height:g} m high"
    right, forward = camera.offset
    places = {"m to the right": right, "m forward": forward}
    places |= {"degrees to the left": camera.yaw_deg, "degrees up": camera.pitch_deg, "rolled": camera.roll_deg}
    return ", ".join([words, *(f"{value:g} {what}" for what, value in places.items() if value)])


def _batch_picture(env: BatchNavEnv, in_flight: bool) -> Portrait:
    """Draw the views of up to 36 agents, one sheet per sensor; a map if the agents are blind."""
    if env.closed:
        return None, "closed: no pictures"
    if not env.simulator.begun.all():
        return None, "no pictures before the first reset"
    if in_flight:
        return None, "no pictures between send() and recv()"
    if not env.cameras.rig.keys:
        return _blind_picture(env)
    some = evenly_spread(np.arange(env.num_envs), MAX_VIEWS)
    sheets = [sheet for name in env.cameras.rig.cameras for sheet in _camera_sheets(env, name, some)]
    return side_by_side(sheets), f"the view of {_share(len(some), env.num_envs)}"


def _camera_sheets(env: BatchNavEnv, name: str, some: np.ndarray) -> list[np.ndarray]:
    """Return a sheet per sensor of a camera with the views of agents ``some`` [M]."""
    rig = env.cameras.rig
    camera = rig.cameras[name]
    sensors = rig.sensors_of(name)
    if not sensors:
        return []
    columns = int(np.ceil(np.sqrt(len(some) * camera.height / camera.width)))
    views = AgentViews(env, sensors, min(_LARGEST, max(_SMALLEST, _SHEET // columns)), len(some), camera)
    try:
        seen = views.of(some)
    finally:
        views.close()
    meanings = {"depth": f", black at {camera.max_depth:g} m", "semantic": ", one colour per object"}
    return [
        captioned(mosaic(_thickened(pictures), columns), key_of(name, sensor) + meanings.get(sensor, ""))
        for sensor, pictures in seen.items()
    ]


def _thickened(pictures: np.ndarray) -> np.ndarray:
    """Repeat rows and columns of images [M, H, W, 3] that are too thin to see: a scan is one pixel high."""
    for axis in (1, 2):
        pictures = np.repeat(pictures, -(-_MIN_PIXELS // pictures.shape[axis]), axis)
    return pictures


def _blind_picture(env: BatchNavEnv) -> Portrait:
    """Draw the agents of the scene with the most agents on its navmesh."""
    slot = int(np.bincount(env.agents.slot).argmax())
    here = np.flatnonzero(env.agents.slot == slot)
    some = evenly_spread(here, MAX_VIEWS)
    position = env.agents.position[some]
    top_down = navmesh_map(env.simulator.navmesh(slot), _MAP, height=position[:, 1])
    picture = draw_trajectories(top_down, list(position[:, None]), env.episodes.goal[some])
    picture = draw_agents(picture, top_down, position, env.agents.heading[some])
    return picture, f"{_share(len(some), len(here))} in {env.library.name(slot)}, and their goals"


def _scene_picture(scene: Scene, navmesh: NavMesh | None) -> Portrait:
    """Draw a scene from above, cut below the ceiling if it has level floors."""
    drawn = _simplified(scene)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the choice of renderer does not matter here
        renderer = make_renderer("auto", SceneLibrary.from_scenes([drawn]))
    try:
        if navmesh is None:
            bottom, top = drawn.bounds[:, 1].tolist()
            house = top - bottom < _HOUSE
            cut = visible_floor_and_cut(drawn, bottom)[1] if house else top + 1
            above = scene_map(renderer, drawn, 0, _MAP, bottom, cut - bottom)
            return draw_trajectories(above, []), f"from above, cut at {cut:.1f} m" if house else "from above"
        floors = storeys(navmesh)
        size = _MAP if len(floors) < 2 else _SMALL_MAP
        heights = floors or [0.0]  # a landscape is drawn as a whole, at any height
        maps = [storey_map(renderer, drawn, 0, navmesh, size, height) for height in heights]
    finally:
        renderer.close()
    pictures = [draw_trajectories(draw_outline(above, navmesh), []) for above in maps]
    description = "from above, cut below the ceiling" if floors else "from above"
    return storeys_beside(pictures, floors), f"{description}; green: the walkable area"


def _simplified(scene: Scene) -> Scene:
    """Return a scene that is quick to draw from above: at most 400,000 enlarged triangles, and no huge textures."""
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
    """Return a scene's navmesh, if it is known or quick to build, with its origin or the reason why there is none."""
    if scene.navmesh is not None:
        return scene.navmesh, "the navmesh that came with it"
    many = len(scene.triangles) > _QUICK_TRIANGLES
    if many or (len(scene.vertices) and np.prod(np.ptp(scene.bounds[:, [0, 2]], axis=0)) > _QUICK_AREA):
        return None, "not built for a scene of this size: call NavMesh.build(scene.vertices, scene.triangles)"
    try:
        return NavMesh.build(scene.vertices, scene.solid_triangles, NavMeshSettings()), "built for Habitat's agent"
    except ValueError as error:
        return None, str(error)


def _navmesh_facts(navmesh: NavMesh) -> dict[str, str]:
    agent = navmesh.settings
    areas = sorted((island.area for island in navmesh.islands), reverse=True)
    return {
        "walkable": f"{navmesh.navigable_area:,.1f} m2",
        "islands": islands_in_words(areas),
        "polygons": f"{navmesh.num_polygons:,}, with {len(navmesh.vertices):,} vertices",
        "size": size_in_words(np.ptp(navmesh.floor_bounds, axis=0)),
        "agent": f"radius {agent.agent_radius:g} m, height {agent.agent_height:g} m; climbs steps of "
        f"{agent.agent_max_climb:g} m and slopes of {agent.agent_max_slope_deg:g} degrees",
        "voxels": f"{agent.cell_size:g} m wide and {agent.cell_height:g} m high",
    }


def _share(some: int, count: int) -> str:
    if some < count:
        return f"{some} of {counted(count, 'agent')}"
    return "the agent" if count == 1 else f"all {count} agents"


def mime_bundle(
    text: Callable[[], str],
    title: str,
    facts: Callable[[], Mapping[str, str]],
    draw: Callable[[], Portrait],
    include: Collection[str] | None = None,
    exclude: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the result of ``_repr_mimebundle_``. It never raises, because displaying an object must not fail.

    ``facts`` returns the rows of the table, by name; it and ``draw`` are called only if more than plain text is
    requested. If one of the three callables raises, the error's message replaces its result.
    """
    requested = {kind for kind in ("text/plain", "text/html", "image/png") if not include or kind in include}
    requested -= set(exclude or ())
    bundle: dict[str, Any] = {}
    if "text/plain" in requested:
        try:
            bundle["text/plain"] = clean(text(), _MAX_TEXT)
        except Exception as error:
            bundle["text/plain"] = clean(f"{title}: {error}", _MAX_TEXT)
    if requested <= {"text/plain"}:
        return bundle
    try:
        picture, caption = draw()
        png = None if picture is None else _encoded(picture, "PNG")
        jpeg = None if picture is None else _encoded(picture, "JPEG", quality=88, subsampling=0)
    except Exception as error:
        png = jpeg = None
        caption = f"no picture: {error}"
    if "text/html" in requested:
        try:
            rows = facts()
        except Exception as error:
            rows = {"unknown": str(error)}
        bundle["text/html"] = _page(title, rows, jpeg, caption)
    if "image/png" in requested and png is not None:
        bundle["image/png"] = png
    return bundle


def clean(text: str, longest: int) -> str:
    """Replace what UTF-8 cannot encode, such as parts of file names, and shorten to ``longest`` characters."""
    return (text if len(text) <= longest else f"{text[:longest]}...").encode(errors="replace").decode()


def _page(title: str, facts: Mapping[str, str], jpeg: str | None, caption: str) -> str:
    """Return self-contained HTML; the image is embedded in base 64."""
    rows = "".join(
        f'<tr style="background:transparent"><th style="{_CELL};font-weight:600;white-space:nowrap">{_safe(name)}</th>'
        f'<td style="{_CELL}">{_safe(value)}</td></tr>'
        for name, value in facts.items()
    )
    image = ""
    if jpeg is not None:
        image = f'<img alt="{_safe(caption)}" style="max-width:100%" src="data:image/jpeg;base64,{jpeg}">'
    return (
        f'<div style="color:inherit"><div style="font-weight:600;margin-bottom:4px">{_safe(title)}</div>'
        '<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">'
        f'<div style="max-width:100%">{image}<div style="opacity:0.75">{_safe(caption)}</div></div>'
        f'<table style="border:0;margin:0;max-width:44em;overflow-wrap:anywhere">{rows}</table></div></div>'
    )


def _safe(text: str) -> str:
    return escape(clean(text, _MAX_FACT))


def _encoded(picture: np.ndarray, name: str, **options: Any) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=name, **options)
    return base64.b64encode(buffer.getvalue()).decode()
