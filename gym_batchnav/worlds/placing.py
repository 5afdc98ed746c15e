"""Where the bodies of a world begin: at starts of the scene's episodes, on one island and apart from each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.library.prepare import AnyNavigation

GAP = 0.1  # metres that are left between two bodies


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The starts and goals of a scene's E episodes, by island.

    Attributes:
        polygon: [E] int32, of the start.
        position: [E, 3] float32, the start, metres.
        heading: [E] float32, radians.
        goal_index: [E] int32, the first set of goals of each episode.
        island: [E] int, of the start.
        island_of_polygon: [P] int.
    """

    polygon: np.ndarray
    position: np.ndarray
    heading: np.ndarray
    goal_index: np.ndarray
    island: np.ndarray
    island_of_polygon: np.ndarray

    @classmethod
    def of(cls, navigation: AnyNavigation) -> Places:
        """Return the places of a scene."""
        episodes = navigation.episode_set
        islands = navigation.navmesh.polygon_island
        polygon = navigation.start_polygon
        return cls(polygon, episodes.start, episodes.heading, episodes.goal_index, islands[polygon], islands)

    def draw_goals(self, polygon: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Return goals [G] on the islands of polygons [G], drawn by uniform numbers [G] from 0 to 1."""
        goals = np.empty(len(polygon), np.int32)
        islands = self.island_of_polygon[polygon]
        for island in np.unique(islands):
            here = islands == island
            rows = np.nonzero(self.island == island)[0]
            chosen = (uniform[here] * len(rows)).astype(np.int64)
            goals[here] = self.goal_index[rows[chosen]] if len(rows) else 0
        return goals


def place_bodies(places: Places, leader: np.ndarray, radius: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Choose an episode for every body of K worlds of one scene, at whose start it begins.

    Each body takes the first of its drawn episodes that begins on the first body's island, apart from the bodies before
    it. If none does, all episodes of that island are searched, and then those of others.

    Args:
        places: The scene's places.
        leader: [K] int, the episodes of the first bodies.
        radius: [B] float64, metres.
        draws: [K, B, D] float64, uniform numbers from 0 to 1.

    Returns:
        [K, B] int64, rows of the scene's episodes.

    Raises:
        ValueError: There is no room for so many bodies.
    """
    num_rows = len(places.polygon)
    num_bodies = len(radius)
    rows = np.empty((len(draws), num_bodies), np.int64)
    rows[:, 0] = leader
    candidates = (draws * num_rows).astype(np.int64)
    for body in range(1, num_bodies):
        fits = _fits(places, rows[:, :body], radius[:body] + radius[body], candidates[:, body])
        rows[:, body] = np.take_along_axis(candidates[:, body], fits.argmax(axis=1)[:, None], axis=1)[:, 0]
        for world in np.nonzero(~fits.any(axis=1))[0].tolist():
            left = _all_that_fit(places, rows[world : world + 1, :body], radius[:body] + radius[body])
            if not len(left):
                raise ValueError(
                    f"there is no room for {num_bodies} bodies in a world: only {body} of them can begin without "
                    "touching; use fewer agents_per_world or bodies, or a larger num_episodes="
                )
            rows[world, body] = left[int(draws[world, body, 0] * len(left))]
    return rows


def _all_that_fit(places: Places, placed: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return all rows that fit beside the bodies ``placed`` [1, b]; those of other islands only if there are no others.

    ``reach`` is that of ``_fits``.
    """
    every = np.arange(len(places.polygon))[None]
    found = _fits(places, placed, reach, every)[0].nonzero()[0]
    return found if len(found) else _fits(places, placed, reach, every, anywhere=True)[0].nonzero()[0]


def _fits(
    places: Places, placed: np.ndarray, reach: np.ndarray, candidates: np.ndarray, anywhere: bool = False
) -> np.ndarray:
    """Return which candidates are on the first body's island and apart from all that are placed.

    Args:
        places: The scene's places.
        placed: [K, b] int, rows of the bodies before.
        reach: [b] float64, the distances at which they would be touched, metres.
        candidates: [K, D] int, rows.
        anywhere: Accept other islands, too.

    Returns:
        [K, D] bool.
    """
    way = places.position[candidates][:, :, None] - places.position[placed][:, None]
    apart = (np.linalg.norm(way, axis=3) > reach + GAP).all(axis=2)
    return apart if anywhere else apart & (places.island[candidates] == places.island[placed[:, :1]])
