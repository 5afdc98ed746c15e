"""Episodes of flying agents: starts and goals in the air of a scene."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.episodes.floors import check_floors, floor_islands
from gym_batchnav.episodes.sampling import SamplingRules
from gym_batchnav.flight.air import CELLS_PER_RADIUS, Air, find_air
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_between, check_counts

MAX_FIELD_BYTES = 128_000_000  # of a scene's shortest paths; a large scene has fewer goals
_FLOOR_POINTS = 4000  # random points of the floor, above which there is air
_BYTES_PER_PATH = 8


@dataclass(frozen=True, slots=True)
class FlightEpisodes:
    """Pairs of a start and a goal in the air of a scene, for agents that fly.

    Goals are shared by episodes, because each needs the shortest paths from everywhere.

    Attributes:
        radius: Of the agent, metres.
        cell: Side of the voxels in which the air is found, metres; at most 1.15 times the radius.
        num_goals: Number of different goals in a scene; fewer where their paths would take more than 128 MB.
        floors: The floors above which air is searched, see ``floor_islands``.
        max_distance: Longest shortest path from start to goal, metres.
        straight_ratio: Episodes whose shortest path is less than this times as long as the straight line are mostly
            left out; 1 keeps all of them. A small ``max_distance`` and a ratio of 1 make easy episodes to begin with.
    """

    radius: float = 0.15
    cell: float = 0.15
    num_goals: int = 64
    floors: str = "main"
    max_distance: float = 30.0
    straight_ratio: float = 1.1

    def __post_init__(self) -> None:
        """Raise ValueError unless every field is valid."""
        check_between(0.01, 10.0, radius=self.radius)
        check_between(0.01, CELLS_PER_RADIUS * self.radius, cell=self.cell)
        check_counts(num_goals=self.num_goals)
        check_floors(self.floors)
        check_between(1.0, 1000.0, straight_ratio=self.straight_ratio)
        self._rules()

    def _rules(self) -> SamplingRules:
        """Return the limits on pairs of a start and a goal; raise ValueError for limits that none can satisfy."""
        return SamplingRules(max_distance=self.max_distance, straight_ratio=self.straight_ratio)

    def sample(self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator) -> EpisodeSet:
        """Return episodes of flying agents."""
        return self.sample_with_air(scene, navmesh, num_episodes, rng)[1]

    def sample_with_air(
        self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator
    ) -> tuple[Air, EpisodeSet]:
        """Return the air of a scene with the shortest paths to goals, and episodes that end there.

        Raises:
            ValueError: The scene has no floor, no free space above it, or no pair of points that are far enough apart.
        """
        islands = floor_islands(scene, navmesh, self.floors)
        if not islands.any():
            raise ValueError("no floor that is large enough to fly above it")
        floor, _ = navmesh.random_points_and_polygons(_FLOOR_POINTS, rng, islands)
        air = find_air(scene.vertices[scene.solid_triangles], floor, self.radius, self.cell)
        count = min(
            self.num_goals, num_episodes, max(1, MAX_FIELD_BYTES // (_BYTES_PER_PATH * len(air.fields.centers)))
        )
        air = air.with_goals(air.random_points(count, rng))
        return air, sample_flights(air, num_episodes, rng, self._rules())


def sample_flights(
    air: Air, num_episodes: int, rng: np.random.Generator, rules: SamplingRules | None = None
) -> EpisodeSet:
    """Sample episodes as ``sample_episodes`` does, but in the air and at any height.

    Goals are uniform among those of the air, starts are uniform in it. Pairs are accepted at distances within the
    limits of the rules, and nearly straight ones with the same small probability. Headings are uniform.

    Raises:
        ValueError: No pair of points satisfies the rules.
    """
    rules = rules or SamplingRules()
    goals = air.fields.goals
    starts = np.empty((0, 3), np.float32)
    chosen = np.empty(0, np.int32)
    lengths = np.empty(0, np.float32)
    tried = 0
    while len(starts) < num_episodes:
        batch = max(1000, 4 * (num_episodes - len(starts)))
        points = air.random_points(batch, rng)
        goal = rng.integers(len(goals), size=batch).astype(np.int32)
        length = air.distance(points, goal)
        straight = np.linalg.norm(points.astype(np.float64) - goals[goal], axis=1)
        ratio = length / np.maximum(straight, 1e-9)
        fits = (length >= rules.min_distance) & (length <= rules.max_distance)
        fits &= (ratio >= rules.straight_ratio) | (rng.random(batch) <= 20 * (ratio - 0.98) ** 2)
        starts = np.concatenate([starts, points[fits]])
        chosen = np.concatenate([chosen, goal[fits]])
        lengths = np.concatenate([lengths, length[fits]])
        tried += batch
        if not len(starts) and tried >= rules.give_up_after:
            raise ValueError(
                f"none of {tried} pairs of points in the air is {rules.min_distance:g} to {rules.max_distance:g} m "
                "apart"
            )
    heading = rng.uniform(-np.pi, np.pi, num_episodes).astype(np.float32)
    return flight_episodes(starts[:num_episodes], heading, goals, chosen[:num_episodes], lengths[:num_episodes])


def flight_episodes(
    start: np.ndarray, heading: np.ndarray, goals: np.ndarray, chosen: np.ndarray, length: np.ndarray
) -> EpisodeSet:
    """Return the episodes of starts [E, 3], headings [E], goals [G, 3], their rows [E] and path lengths [E]."""
    return EpisodeSet(
        ids=tuple(map(str, range(len(start)))),
        start=start,
        heading=heading,
        goals=goals,
        targets=goals,
        first_goal=np.arange(len(goals) + 1, dtype=np.int32),
        tour=chosen[:, None],
        leg_distance=length[:, None],
        nearest_goal=chosen,
        view_index=chosen,
        category=np.zeros(len(start), np.int32),
    )
