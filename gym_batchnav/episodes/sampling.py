"""Sampling of episodes, pairs of a start and a goal, by the rules of Habitat's PointNav generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet, episode_set, tour_set
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.system.numbers import check_counts, check_not_negative

_LEAST_SHARE = 1e-4  # of pairs of points that satisfy the rules; with fewer, sampling would take minutes


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Limits on the pairs of points that form an episode; the defaults are Habitat's.

    Raises:
        ValueError: If a value is not a number or out of its range, or the distances are not a range.
    """

    min_island_radius: float = 1.5  # metres
    max_height_difference: float = 0.5  # metres
    min_distance: float = 1.0  # metres, geodesic
    max_distance: float = 30.0  # metres, geodesic
    straight_ratio: float = 1.1  # pairs with a smaller geodesic / euclidean ratio are mostly rejected
    retries: int = 10  # starts tried per goal
    give_up_after: int = 100_000  # pairs tried before an error is raised if almost none satisfies the rules

    def __post_init__(self) -> None:
        check_not_negative(
            min_island_radius=self.min_island_radius,
            max_height_difference=self.max_height_difference,
            min_distance=self.min_distance,
            max_distance=self.max_distance,
            straight_ratio=self.straight_ratio,
        )
        check_counts(retries=self.retries, give_up_after=self.give_up_after)
        if self.min_distance >= self.max_distance:
            raise ValueError(
                f"min_distance={self.min_distance} and max_distance={self.max_distance}: pass distances of at least "
                "0 m, the smaller one first"
            )

    def check_share(self, found: int, tried: int) -> None:
        """Raise ValueError if almost none of the pairs of points that were tried satisfied the rules."""
        if tried >= self.give_up_after and found + 3 * found**0.5 < _LEAST_SHARE * tried:  # not by chance
            raise ValueError(
                f"{found} of {tried:,} pairs of points lie {self.min_distance:g} to {self.max_distance:g} m apart, "
                f"most with a path of {self.straight_ratio:g} times the straight line or more: choose other distances "
                "or a smaller straight_ratio, in the sampler if it has them or in rules=, or another scene"
            )


def sample_episodes(
    navmesh: NavMesh,
    num_episodes: int,
    rng: np.random.Generator,
    rules: SamplingRules | None = None,
    islands: np.ndarray | None = None,
) -> EpisodeSet:
    """Sample episodes as Habitat's generator does (habitat-lab, pointnav_generator.py), many at a time.

    Goals are uniform on all islands that are large enough, and up to ``retries`` uniform starts are tried per goal. A
    start is accepted on the goal's floor and island, at a geodesic distance within the limits. A nearly straight pair
    (ratio r below ``straight_ratio``) is accepted with probability 20 (r - 0.98)^2. Headings are uniform.

    Args:
        navmesh: The navmesh.
        num_episodes: Number of episodes.
        rng: Source of random numbers.
        rules: Limits on the pairs of points.
        islands: [I] bool, the islands to sample on, see ``floor_islands``; None for all.

    Raises:
        ValueError: If no island or no pair of points satisfies the rules.
    """
    rules = rules or SamplingRules()
    radii = navmesh.island_radius
    if not (radii >= rules.min_island_radius).any():
        raise ValueError(
            f"no island has a radius of {rules.min_island_radius} m or more (the largest has {radii.max():.2f} m): "
            "the scene is too small to sample episodes; pass your own with episodes="
        )
    longest = _path_length_bound(navmesh)
    if rules.min_distance > longest:
        raise ValueError(
            f"min_distance={rules.min_distance}: no path on this navmesh is longer than {longest:.4g} m; lower it"
        )
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    num_found = num_tried = 0
    while num_found < num_episodes:
        batch = max(64, num_episodes - num_found)
        starts, goals, distances = _compatible_pairs(navmesh, batch, rng, rules, islands)
        found.append((starts, goals, distances))
        num_found += len(starts)
        num_tried += batch * rules.retries
        if num_found < num_episodes:
            rules.check_share(num_found, num_tried)
    start, goal, distance = (np.concatenate(parts)[:num_episodes] for parts in zip(*found, strict=True))
    heading = rng.uniform(-np.pi, np.pi, num_episodes)
    return episode_set(start, heading, goal, distance)


def sample_tours(
    navmesh: NavMesh,
    num_episodes: int,
    num_goals: int,
    rng: np.random.Generator,
    rules: SamplingRules | None = None,
    islands: np.ndarray | None = None,
) -> EpisodeSet:
    """Sample episodes with several goals, to be reached in order.

    Start and first goal are those of ``sample_episodes``. Each further goal is uniform among the points of the same
    island whose geodesic distance from the goal before lies within the limits of the rules.

    Args:
        navmesh: The navmesh.
        num_episodes: Number of episodes.
        num_goals: Number of goals per episode.
        rng: Source of random numbers.
        rules: Limits on the pairs of points.
        islands: [I] bool, the islands to sample on, see ``floor_islands``; None for all.

    Raises:
        ValueError: If no island or no pair of points satisfies the rules.
    """
    rules = rules or SamplingRules()
    first = sample_episodes(navmesh, num_episodes, rng, rules, islands)
    goals = np.empty((num_episodes, num_goals, 3), np.float32)
    legs = np.empty((num_episodes, num_goals), np.float32)
    goals[:, 0] = first.goal
    legs[:, 0] = first.distance
    island = navmesh.polygon_island[navmesh.snap_with_polygon(first.goal)[1]]
    for leg in range(1, num_goals):
        left = np.arange(num_episodes)
        for _ in range(rules.give_up_after // rules.retries):
            tried, polygons = navmesh.random_points_and_polygons(len(left), rng, islands)
            distance = np.full(len(left), np.inf)
            here = navmesh.polygon_island[polygons] == island[left]
            distance[here] = navmesh.geodesic_distance(goals[left[here], leg - 1], tried[here])
            fits = (distance >= rules.min_distance) & (distance <= rules.max_distance)
            goals[left[fits], leg] = tried[fits]
            legs[left[fits], leg] = distance[fits]
            left = left[~fits]
            if not len(left):
                break
        else:
            raise ValueError(
                f"no goal {leg + 1} of num_goals={num_goals} found {rules.min_distance:g} to {rules.max_distance:g} m "
                f"from {goals[left[0], leg - 1]}: pass a smaller num_goals=, or choose other distances in rules="
            )
    return tour_set(first.start, first.heading, goals, legs)


def _path_length_bound(navmesh: NavMesh) -> float:
    """Return a length in metres that no shortest path exceeds.

    A shortest path crosses each convex polygon of its island at most once, along no more than the polygon's diagonal.
    """
    used = (navmesh.polygons >= 0)[..., None]
    corners = navmesh.vertices[navmesh.polygons].astype(np.float64)
    size = np.where(used, corners, -np.inf).max(axis=1) - np.where(used, corners, np.inf).min(axis=1)
    return float(np.bincount(navmesh.polygon_island, np.linalg.norm(size, axis=1)).max())


def _compatible_pairs(
    navmesh: NavMesh, num_goals: int, rng: np.random.Generator, rules: SamplingRules, islands: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Try ``num_goals`` goals and return the starts, goals and distances of accepted pairs, at most one per goal."""
    goals, goal_polygons = navmesh.random_points_and_polygons(num_goals, rng, islands)
    fits = navmesh.island_radius[navmesh.polygon_island[goal_polygons]] >= rules.min_island_radius
    goals = goals[fits]
    goal_islands = navmesh.polygon_island[goal_polygons[fits]]
    starts = np.full_like(goals, np.nan)
    distances = np.full(len(goals), np.nan)
    left = np.arange(len(goals))  # goals that have no start yet
    for _ in range(rules.retries):
        tried, polygons = navmesh.random_points_and_polygons(len(left), rng, islands)
        offset = (tried - goals[left]).astype(np.float64)
        fits = navmesh.polygon_island[polygons] == goal_islands[left]
        straight = np.linalg.norm(offset, axis=1)
        fits &= (np.abs(offset[:, 1]) <= rules.max_height_difference) & (straight <= rules.max_distance)
        distance = np.full(len(left), np.inf)
        distance[fits] = navmesh.geodesic_distance(tried[fits], goals[left[fits]])
        ratio = distance / np.maximum(straight, 1e-9)
        fits &= (distance >= rules.min_distance) & (distance <= rules.max_distance)
        fits &= (ratio >= rules.straight_ratio) | (rng.random(len(left)) <= 20 * (ratio - 0.98) ** 2)
        starts[left[fits]], distances[left[fits]] = tried[fits], distance[fits]
        left = left[~fits]
    found = np.isfinite(distances)
    return starts[found], goals[found], distances[found]
