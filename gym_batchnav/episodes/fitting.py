"""Fitting of episodes from files to the navmesh in use."""

from __future__ import annotations

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet, episode_set
from gym_batchnav.episodes.objects import nearest_goals
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.kernels.blocks import Places, detour_blocks
from gym_batchnav.navmesh.kernels.detour_path import MAX_CORRIDOR, MAX_NODES
from gym_batchnav.navmesh.kernels.tables import NavigationTables
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.system.notices import warn_user

MAX_SHIFT = 0.5  # metres from an episode's start or goal to the navmesh: other builders differ by less
MOVED = 0.05  # metres: a smaller shift, about a cell of the navmesh, is not worth a warning
# Paths on navmeshes of other builders and agents differ by less in most episodes.
MAX_DEVIATION = 0.05  # of the length
MIN_DEVIATION = 0.1  # metres, in addition


def fit_episodes(episodes: EpisodeSet, navmesh: NavMesh, where: str) -> EpisodeSet:
    """Fit episodes from a file to the navmesh: snap them, recompute distances, and drop those without a path.

    An episode is dropped if its start or goal is farther than ``MAX_SHIFT`` from the navmesh, which happens if the
    agent is larger than the one the episode was made for, or if no path connects them.

    Raises:
        ValueError: If none is left.
    """
    start = navmesh.snap(episodes.start)
    goal = navmesh.snap(episodes.goal)
    near = is_near(episodes.start, start) & is_near(episodes.goal, goal)
    distance = np.full(len(episodes), np.inf)
    distance[near] = navmesh.geodesic_distance(start[near], goal[near])
    fits = np.isfinite(distance)
    _check_left_out(episodes, near, fits, where)
    shift = np.maximum(_shift(episodes.start, start), _shift(episodes.goal, goal))
    _check_distances(episodes.distance[fits], distance[fits], shift[fits], where)
    left = episodes.rows(fits)
    return episode_set(start[fits], left.heading, goal[fits], distance[fits], left.ids)


def fit_object_episodes(episodes: EpisodeSet, navmesh: NavMesh, where: str) -> EpisodeSet:
    """Fit episodes with sets of goals from a file to the navmesh: snap them, and recompute distances.

    Goals that are farther than ``MAX_SHIFT`` from the navmesh are left out. An episode is dropped if its start is too
    far, or if no path leads to any goal of its set.

    Raises:
        ValueError: If no episode is left.
    """
    start, polygons = navmesh.snap_with_polygon(episodes.start)
    goals = navmesh.snap(episodes.goals)
    kept = is_near(episodes.goals, goals)
    counts = np.concatenate([[0], np.cumsum(kept)])
    first_goal = counts[episodes.first_goal].astype(np.int32)
    near = is_near(episodes.start, start) & (np.diff(first_goal)[episodes.goal_index] > 0)
    distance = np.full(len(episodes), np.inf, np.float32)
    if near.any():
        navmeshes = NavMeshAgents(1)
        navmeshes.set_slot(0, navmesh.tables(goals[kept], first_goal=first_goal))
        found = np.empty(int(near.sum()), np.float32)
        goal_set = np.ascontiguousarray(episodes.goal_index[near])
        navmeshes.distance(np.zeros(len(found), np.int32), polygons[near], start[near], goal_set, found)
        distance[near] = found
    fits = np.isfinite(distance)
    _check_left_out(episodes, near, fits, where)
    _check_distances(episodes.distance[fits], distance[fits], _shift(episodes.start, start)[fits], where)
    nearest = nearest_goals(navmesh, start[fits], goals[kept], first_goal, episodes.goal_index[fits], distance[fits])
    return episodes.rows(
        fits,
        start=start[fits],
        goals=goals[kept],
        targets=episodes.targets[kept],
        first_goal=first_goal,
        leg_distance=distance[fits, None],
        nearest_goal=nearest,
        view_index=nearest,
    )


def measure_like_detour(episodes: EpisodeSet, navmesh: NavMesh, tables: NavigationTables, where: str) -> EpisodeSet:
    """Replace the lengths of all legs by those that Detour finds, and leave out episodes for which it finds no path.

    Detour gives up on large navmeshes; see ``navmesh.kernels.detour_path``. The nearest goals remain the exact ones.

    Args:
        episodes: The episodes.
        navmesh: The navmesh.
        tables: Its tables with the goals of the episodes.
        where: Name of the episodes in warnings and errors.

    Raises:
        ValueError: If no episode is left.
    """
    table = tables.row()[None]
    slots = np.zeros(len(episodes), np.int32)
    position = np.ascontiguousarray(episodes.start)
    _, polygon = navmesh.snap_with_polygon(position)
    leg_distance = np.empty_like(episodes.leg_distance)
    for leg in range(episodes.tour.shape[1]):
        goal_set = np.ascontiguousarray(episodes.tour[:, leg])
        length = np.empty(len(episodes), np.float32)
        # In one block, on this thread: a background thread may prepare scenes, and steps would wait for it.
        places = Places(slots, polygon, position)
        detour_blocks(len(episodes), len(episodes), (table, places, goal_set, length))
        leg_distance[:, leg] = np.where(goal_set >= 0, length, 0)
        last = episodes.first_goal[np.maximum(goal_set, 0)]  # the sets of tours hold one goal each
        position = tables.goals.point[last]
        polygon = tables.goals.polygon[last]
    found = np.isfinite(leg_distance).all(axis=1)
    if not found.all():
        message = (
            f"{where}: left out {int((~found).sum())} of {len(episodes)} episodes, because Detour finds no path within "
            f"its limits of {MAX_NODES} polygons searched and {MAX_CORRIDOR} on the path: pass geodesic='exact'"
        )
        if not found.any():
            raise ValueError(message)
        warn_user(message)
    return episodes.rows(found, leg_distance=leg_distance[found])


def _check_left_out(episodes: EpisodeSet, near: np.ndarray, fits: np.ndarray, where: str) -> None:
    """Warn of the episodes that do not fit, ``fits`` [E] bool; ValueError if none is left."""
    if not fits.all():
        left_out = [name for name, fit in zip(episodes.ids, fits, strict=True) if not fit]
        many = ", ..." if len(left_out) > 5 else ""
        message = (
            f"{where}: left out {len(left_out)} of {len(episodes)} episodes (ids {', '.join(left_out[:5])}{many}): "
            f"{int((~near).sum())} start or end more than {MAX_SHIFT} m from the navmesh of this agent, "
            f"{int((near & ~fits).sum())} have no path to their goal; "
            "use the scene, not another one of its name, and the navmesh or navmesh_settings= that they were made for"
        )
        if not fits.any():
            raise ValueError(message)
        warn_user(message)


def _check_distances(given: np.ndarray, found: np.ndarray, shift: np.ndarray, where: str) -> None:
    """Warn if episodes do not seem to be made for the navmesh.

    The geodesic distances [E] in the file, NaN if missing, are mostly not those that were found, or starts or goals
    were moved onto the navmesh by ``shift`` [E]; all are in metres.
    """
    moved = shift > MOVED
    other = np.abs(found - given) > MIN_DEVIATION + MAX_DEVIATION * given
    if 2 * other.sum() > len(other):
        instead = f"{found[other][0]:.2f} instead of {given[other][0]:.2f} m"
        warn_user(
            f"{where}: in {int(other.sum())} of {len(other)} episodes, the distance to the goal is not that of the "
            f"file ({instead} in the first): use the scene, not another one of its name, and the navmesh or "
            "navmesh_settings= that they were made for"
        )
    elif moved.any():
        warn_user(
            f"{where}: in {int(moved.sum())} of {len(moved)} episodes, the start or goal was off the navmesh of this "
            f"agent and was moved, by up to {shift.max():.2f} m: use the navmesh or navmesh_settings= that they were "
            "made for"
        )


def is_near(points: np.ndarray, snapped: np.ndarray) -> np.ndarray:
    """Return whether points [N, 3] moved by at most ``MAX_SHIFT``, horizontally and vertically; False for NaN."""
    return (_shift(points, snapped) <= MAX_SHIFT) & (np.abs(snapped - points)[:, 1] <= MAX_SHIFT)


def _shift(points: np.ndarray, snapped: np.ndarray) -> np.ndarray:
    """Return how far points [N, 3] were moved horizontally, metres."""
    return np.hypot(*(snapped - points)[:, [0, 2]].T)
