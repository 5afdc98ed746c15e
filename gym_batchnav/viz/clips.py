"""Clips of episodes: a map with the agents on their ways beside what they see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.viz.floors import storey_at
from gym_batchnav.viz.maps import TopDownMap, draw_agents, draw_trajectories, storey_map
from gym_batchnav.viz.marks import PATH_COLORS
from gym_batchnav.viz.recording import Recording
from gym_batchnav.viz.sheets import captioned, framed, mosaic, side_by_side, titled

MAX_FRAMES = 120


def batch_map(env: BatchNavEnv, slot: int = 0, size: int = 768, floor: np.ndarray | float | None = None) -> TopDownMap:
    """The scene in a slot of a batch from above, see ``scene_map``.

    Of a building one storey is shown, with all cut off that is more than two metres over its floor; a landscape whole.

    Args:
        env: The batch; it must have been reset.
        slot: Its slot in the batch's library, ``env.agents.slot`` of an agent.
        size: Pixels along the longer side.
        floor: A height on the storey that is shown, metres, or heights [M] most of which are; those of the agents who
            are there if not given.
    """
    heights = env.agents.position[env.agents.slot == slot, 1] if floor is None else floor
    return storey_map(env.renderer, env.library.scene(slot), slot, env.simulator.navmesh(slot), size, heights)


def map_beside_views(
    top_down: TopDownMap,
    paths: Sequence[np.ndarray],
    goals: np.ndarray,
    positions: np.ndarray,
    headings: np.ndarray,
    views: Sequence[np.ndarray],
    caption: str = "",
) -> np.ndarray:
    """One frame of a clip.

    Args:
        top_down: The map.
        paths: The way [T, 3] of each of M agents so far, metres.
        goals: [M, 3], metres.
        positions: [M, 3], metres, where they are.
        headings: [M], radians.
        views: What each of them sees, [H, W, 3] uint8 of one size; framed in the colour that its agent has on the map.
        caption: A line below.

    Returns:
        The frame [H, W, 3] uint8.
    """
    picture = draw_trajectories(top_down, paths, goals, width=2)
    picture = draw_agents(picture, top_down, positions, headings)
    tiles = [framed(view, PATH_COLORS[index % len(PATH_COLORS)]) for index, view in enumerate(views)]
    columns = 1 if len(tiles) == 1 or tiles[0].shape[1] > 1.5 * tiles[0].shape[0] else 2
    frame = side_by_side([picture, mosaic(np.stack(tiles), columns=columns)])
    return captioned(frame, caption) if caption else frame


def episode_clip(env: BatchNavEnv, recording: Recording, size: int = 640, every: int | None = None) -> list[np.ndarray]:
    """The filmed agents of a recording on the map of their scene, beside what they see.

    Args:
        env: The batch that was recorded, for its scene.
        recording: Of one or more agents, filmed in one scene.
        size: Pixels along the longer side of the map.
        every: Steps from frame to frame; if not given at least 2, and so many that there are 120 frames at most.

    Returns:
        Frames [H, W, 3] uint8, see ``save_clip``; step and distance are told. Of a building they show the storey that
        most of the agents are on.

    Raises:
        ValueError: nobody was filmed, or in several scenes.
    """
    count = recording.num_filmed
    scenes = np.unique(recording.slots[:count])
    if len(scenes) != 1:
        raise ValueError(f"a clip of {count} filmed agents in {len(scenes)} scenes: record some that share one scene")
    slot = int(scenes[0])
    maps: dict[float | None, TopDownMap] = {}  # by floor
    last = int(recording.num_steps[:count].max())
    every = every or max(2, -(-last // MAX_FRAMES))
    frames = []
    for step in [*range(0, last, every), last]:
        heights = recording.positions[step, :count, 1]
        floor, _ = storey_at(env.simulator.navmesh(slot), heights)
        if floor not in maps:
            maps[floor] = batch_map(env, slot, size, heights)
        left = [f"{metres:.1f} m to the goal" for metres in recording.distances[step, :count]]
        views = [recording.view(index, step) for index in range(count)]
        frames.append(
            map_beside_views(
                maps[floor],
                [recording.path(index, step) for index in range(count)],
                recording.goals[:count],
                recording.positions[step, :count],
                recording.headings[step, :count],
                views if count == 1 else [titled(*titles) for titles in zip(views, left, strict=True)],
                f"step {step}, {left[0]}" if count == 1 else f"step {step}",
            )
        )
    return frames
