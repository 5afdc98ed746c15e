"""Failures as a contact sheet: map, views along the way, and the cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.system.wording import counted
from gym_batchnav.viz.clips import SHORTEST_PATH_COLOR, batch_map, shortest_tour
from gym_batchnav.viz.floors import storey_at
from gym_batchnav.viz.maps import TopDownMap, draw_agents, draw_trajectories
from gym_batchnav.viz.marks import BACKGROUND, PATH_COLORS
from gym_batchnav.viz.recording import Recording
from gym_batchnav.viz.sheets import captioned, mosaic, side_by_side

_MAP = 296  # pixels per side
_VIEWS = 4


def failure_sheet(env: BatchNavEnv, recording: Recording, causes: Sequence[str]) -> np.ndarray:
    """Draw recorded episodes as a contact sheet [H, W, 3] uint8, one tile each.

    A tile has a map with the agent's path and the shortest path in grey, four views from the first to the last, and a
    line with the cause, the number of steps and the distance to the goal at the end.

    Args:
        env: The batch that was recorded.
        recording: M episodes, all filmed.
        causes: M texts.

    Raises:
        ValueError: There is no episode, an episode was not filmed, or there are more or fewer causes.
    """
    count = len(recording.slots)
    if not count or len(causes) != count or recording.num_filmed != count:
        raise ValueError(
            f"{count} recorded episodes, {recording.num_filmed} of them filmed, and {len(causes)} causes: pass one or "
            "more episodes, film all of them, and name a cause for each"
        )
    maps: dict[tuple[int, float | None], TopDownMap] = {}  # by slot and floor
    tiles = []
    for index, cause in enumerate(causes):
        slot = int(recording.slots[index])
        heights = recording.path(index)[:, 1]
        floor, _ = storey_at(env.simulator.navmesh(slot), heights)
        if (slot, floor) not in maps:
            maps[slot, floor] = batch_map(env, slot, _MAP, floor=heights)
        tiles.append(_tile(env, recording, index, cause, maps[slot, floor]))
    return mosaic(np.stack(tiles), columns=2 if count > 1 else 1, gap=8)


def _tile(env: BatchNavEnv, recording: Recording, index: int, cause: str, above: TopDownMap) -> np.ndarray:
    """Draw one episode on the map of its storey."""
    slot = int(recording.slots[index])
    last = int(recording.num_steps[index])
    path = recording.path(index)
    goals = recording.tours[index]
    shortest = shortest_tour(env.simulator.navigation(slot), path[0], goals)
    picture = draw_trajectories(above, [shortest], colors=[SHORTEST_PATH_COLOR], width=2)
    picture = draw_trajectories(replace(above, picture=picture), [path], [goals], colors=[PATH_COLORS[0]], width=2)
    picture = draw_agents(picture, above, recording.positions[last, index][None], recording.headings[last, index][None])
    steps = np.linspace(0, last, _VIEWS).round().astype(int).tolist()
    views = mosaic(np.stack([_square(recording.view(index, step), _MAP // 2) for step in steps]), columns=2)
    left = float(recording.distances[last, index])
    text = f"{cause}: {env.library.name(slot)}, {counted(last, 'step')}, {left:.1f} m from the goal"
    return captioned(side_by_side([_square(picture, _MAP), views]), text)


def _square(picture: np.ndarray, side: int) -> np.ndarray:
    """Centre a picture on a square of the background colour; what reaches beyond is cut off."""
    height, width = (min(side, length) for length in picture.shape[:2])
    square = np.empty((side, side, 3), np.uint8)
    square[:] = BACKGROUND
    top = (side - height) // 2
    left = (side - width) // 2
    square[top : top + height, left : left + width] = picture[:height, :width]
    return square
