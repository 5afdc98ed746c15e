"""Clips and maps of recorded episodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv, batch_of
from gym_batchnav.library.prepare import Navigation
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.viz.floors import storey_at
from gym_batchnav.viz.maps import Goals, TopDownMap, draw_agents, draw_trajectories, section_map, storey_map
from gym_batchnav.viz.recording import Recording
from gym_batchnav.viz.sheets import PATH_COLORS, captioned, framed, mosaic, on_square, side_by_side, stacked, titled

MAX_FRAMES = 120
SHORTEST_PATH_COLOR = (120, 124, 130)
_TRAJECTORY_MAP = 420  # pixels per side


def batch_map(env: BatchNavEnv, slot: int = 0, size: int = 768, floor: np.ndarray | float | None = None) -> TopDownMap:
    """Draw the scene in a slot of a batch from above, see ``scene_map``.

    A building shows one storey, cut below its ceiling; a landscape is shown as a whole.

    Args:
        env: The batch, with or without wrappers; it must have been reset.
        slot: The slot in the batch's library, such as ``env.agents.slot[0]``.
        size: Pixels along the longer side.
        floor: A height on the storey to show, in metres, or heights [M], most of which lie on it; the heights of the
            agents in the scene if not given.
    """
    env = batch_of(env)
    heights = env.agents.position[env.agents.slot == slot, 1] if floor is None else floor
    return storey_map(env.renderer, env.library.scene(slot), slot, env.simulator.navmesh(slot), size, heights)


def map_beside_views(
    maps: TopDownMap | Sequence[TopDownMap],
    paths: Sequence[np.ndarray],
    goals: Goals,
    positions: np.ndarray,
    headings: np.ndarray,
    views: Sequence[np.ndarray],
    caption: str = "",
) -> np.ndarray:
    """Draw one frame [H, W, 3] uint8 of a clip: maps, below each other, with the agents' paths next to their views.

    Paths and goals are those of ``draw_trajectories``. Agents are at positions [M, 3] in metres with headings [M] in
    radians; views [H, W, 3] uint8 of one size are framed in their colours. A caption is a line of text below.
    """
    drawn = []
    for one in [maps] if isinstance(maps, TopDownMap) else maps:
        picture = draw_trajectories(one, paths, goals, width=2)
        drawn.append(draw_agents(picture, one, positions, headings))
    picture = stacked(drawn)
    tiles = [framed(view, PATH_COLORS[index % len(PATH_COLORS)]) for index, view in enumerate(views)]
    columns = 1 if len(tiles) == 1 or tiles[0].shape[1] > 1.5 * tiles[0].shape[0] else 2
    frame = side_by_side([picture, mosaic(np.stack(tiles), columns=columns)])
    return captioned(frame, caption) if caption else frame


def episode_clip(env: BatchNavEnv, recording: Recording, size: int = 640, every: int | None = None) -> list[np.ndarray]:
    """Draw the filmed agents of a recording on the map of their scene, next to their views.

    Args:
        env: The batch that was recorded, with or without wrappers.
        recording: A recording of one or more agents, filmed in one scene.
        size: Pixels along the longer side of the map.
        every: Steps per frame; by default at least 2, and enough that the clip has at most 120 frames.

    Returns:
        Frames [H, W, 3] uint8, see ``save_clip``, with step and distance as text. In a building they show the storey
        that most of the agents are on. Flights are shown from above and from the side.

    Raises:
        ValueError: No agent was filmed, or the agents are in several scenes.
    """
    env = batch_of(env)
    count = recording.num_filmed
    scenes = np.unique(recording.slots[:count])
    if len(scenes) != 1:
        raise ValueError(
            f"a clip of {count} filmed agents in {len(scenes)} scenes: record one or more agents that share a scene"
        )
    slot = int(scenes[0])
    maps: dict[float | None, list[TopDownMap]] = {}  # by floor
    sides = flight_sections(env, slot, [recording.path(index) for index in range(count)], size)
    last = int(recording.num_steps[:count].max())
    every = every or max(2, -(-last // MAX_FRAMES))
    frames = []
    for step in [*range(0, last, every), last]:
        heights = recording.positions[step, :count, 1]
        floor, _ = storey_at(env.simulator.navmesh(slot), heights)
        if floor not in maps:
            maps[floor] = [batch_map(env, slot, size, heights), *sides]
        left = [
            f"{metres:.1f} m to the goal" if len(tour) else ""
            for metres, tour in zip(recording.distances[step, :count], recording.tours[:count], strict=True)
        ]
        views = [recording.view(index, step) for index in range(count)]
        frames.append(
            map_beside_views(
                maps[floor],
                [recording.path(index, step) for index in range(count)],
                recording.tours[:count],
                recording.positions[step, :count],
                recording.headings[step, :count],
                views if count == 1 or not any(left) else [titled(*titles) for titles in zip(views, left, strict=True)],
                f"step {step}, {left[0]}" if count == 1 and left[0] else f"step {step}",
            )
        )
    return frames


def trajectory_maps(env: BatchNavEnv, recording: Recording) -> np.ndarray:
    """Draw a map [H, W, 3] per recorded scene: the agents' paths in colour, the shortest paths in grey, and the SPL.

    Tasks without success have no shortest paths and no SPL. Flights are shown from above and from the side.
    """
    env = batch_of(env)
    sheets = []
    titles = []
    for slot in dict.fromkeys(recording.slots.tolist()):
        here = np.nonzero(recording.slots == slot)[0]
        ground = env.simulator.navigation(slot)
        shortest = [shortest_tour(ground, recording.positions[0, index], recording.tours[index]) for index in here]
        paths = [recording.path(index) for index in here.tolist()]
        tours = [recording.tours[index] for index in here]
        drawn = []
        above = batch_map(env, slot, _TRAJECTORY_MAP, floor=recording.positions[0, here, 1])
        for one in (above, *flight_sections(env, slot, paths + shortest, _TRAJECTORY_MAP)):
            picture = draw_trajectories(one, shortest, colors=[SHORTEST_PATH_COLOR], width=2)
            drawn.append(draw_trajectories(replace(one, picture=picture), paths, tours))
        sheets.append(stacked(drawn))
        known = recording.spl[here][np.isfinite(recording.spl[here])]
        scores = "  ".join(["   SPL", *(f"{score:.2f}" for score in known)]) if len(known) else ""
        titles.append(f"{env.library.name(slot)}{scores}")
    side = max(_TRAJECTORY_MAP, *(max(sheet.shape[:2]) for sheet in sheets))
    maps = [captioned(on_square(sheet, side), title) for sheet, title in zip(sheets, titles, strict=True)]
    return mosaic(np.stack(maps), columns=min(3, len(maps)), gap=8)


def flight_sections(env: BatchNavEnv, slot: int, paths: Sequence[np.ndarray], size: int) -> list[TopDownMap]:
    """Return a map of the scene from the side if the agents fly; nothing for others, which stay on the floor."""
    if isinstance(env.simulator.navmeshes, NavMeshAgents):
        return []
    return [section_map(env.renderer, env.library.scene(slot), slot, paths, size)]


def shortest_tour(ground: Navigation, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Return the shortest path [K, 3] from a start [3] to goals [n, 3] in their order; only the start without goals."""
    if not len(goals):
        return start[None]
    stops = [start, *goals]
    return np.concatenate([ground.shortest_path(*leg) for leg in itertools.pairwise(stops)])
