"""Episodes of flying agents: starts and goals in the air of a scene, and its preparation for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from gym_batchnav.episodes.episode_set import EPISODE_ARRAYS, EpisodeSet, check_episode_arrays, point_set
from gym_batchnav.episodes.floors import FLOORS, floor_islands
from gym_batchnav.episodes.sampling import SamplingRules
from gym_batchnav.flight.air import VOXEL_SIDE_PER_RADIUS, Air, air_from_arrays, find_air
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.loader import reason_of
from gym_batchnav.library.prepare import Navigation, content_of_navmesh
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.simplify import digest_of_geometry
from gym_batchnav.system.code import code_digest
from gym_batchnav.system.numbers import check_between, check_choice, check_counts, unwrap_numpy
from gym_batchnav.system.progress import report_stage

MAX_FIELD_BYTES = 128_000_000  # of a scene's shortest paths; a large scene has fewer goals
_FLOOR_POINTS = 4000  # random points of the floor, above which there is air
_BYTES_PER_PATH = 8
_CLOSE = 0.05  # metres by which a stored length may differ from the one computed from stored paths
_OTHER_CODE = ("navmesh/build/", "library/")
_digest = partial(code_digest, "flight/episodes.py", without=_OTHER_CODE, packages=("numpy", "numba"))


@dataclass(frozen=True, slots=True, eq=False)
class FlightNavigation(Navigation):
    """A scene prepared for flying agents."""

    tables: Air  # type: ignore[assignment]

    @override
    def is_navigable(self, points: np.ndarray) -> np.ndarray:
        return self.tables.is_free(points)

    @override
    def shortest_path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
        goals = self.tables.fields.goals
        return self.tables.shortest_path(start, int(np.linalg.norm(goals - goal, axis=1).argmin()))

    @override
    def snap_with_polygon(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(points, np.float32), np.zeros(len(points), np.int32)


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
        check_between(0.01, 10.0, radius=self.radius)
        check_between(0.01, VOXEL_SIDE_PER_RADIUS * self.radius, cell=self.cell)
        check_counts(num_goals=self.num_goals)
        check_choice("floors", self.floors, FLOORS)
        check_between(1.0, 1000.0, straight_ratio=self.straight_ratio)
        self._rules()
        unwrap_numpy(self)

    def _rules(self) -> SamplingRules:
        """Return the limits on pairs of a start and a goal; raise ValueError for limits that none can satisfy."""
        return SamplingRules(max_distance=self.max_distance, straight_ratio=self.straight_ratio)

    def sample(self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator) -> EpisodeSet:
        """Return episodes of flying agents."""
        return self.sample_with_air(scene, navmesh, num_episodes, rng)[1]

    def prepare(
        self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator, cache: DiskCache | None
    ) -> FlightNavigation:
        """Return the air and the episodes of a scene, from the cache or made and stored there.

        Raises:
            ValueError: The scene has no place to fly; the message names it.
        """
        solid = hashlib.sha256(np.ascontiguousarray(scene.solid_triangles).data).hexdigest()
        drawn = rng.bit_generator.state["state"]["state"]
        content = f"{digest_of_geometry(scene)}-{solid}-{content_of_navmesh(navmesh)}-{drawn}"
        key = f"flight-{_digest()}-{self!r}-{num_episodes}-{content}"
        arrays = cache.load(key) if cache is not None else None
        start_polygon = np.zeros(num_episodes, np.int32)
        if arrays is not None:
            try:
                air = air_from_arrays(arrays, self.radius)
                return FlightNavigation(navmesh, air, _stored_episodes(arrays, air, num_episodes), start_polygon)
            except (ValueError, KeyError, TypeError, IndexError):
                pass  # an entry that does not validate is replaced
        report_stage(f"{scene.name}: free space and shortest paths in the air")
        try:
            air, episodes = self.sample_with_air(scene, navmesh, num_episodes, rng)
        except ValueError as error:
            raise SceneError(scene.name, reason_of(error)) from error
        if cache is not None:
            stored = {f"episodes_{name}": value for name, value in episodes.arrays().items()}
            cache.store(key, {**air.arrays(), **stored})
        return FlightNavigation(navmesh, air, episodes, start_polygon)

    def sample_with_air(
        self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator
    ) -> tuple[Air, EpisodeSet]:
        """Return the air of a scene with the shortest paths to goals, and episodes that end there.

        Raises:
            ValueError: The scene has no floor, no free space above it, or no pair of points that are far enough apart.
        """
        islands = floor_islands(scene, navmesh, self.floors)
        if not islands.any():
            raise ValueError(
                "it has no floor that is large enough to fly above: choose other floors= of FlightEpisodes"
            )
        floor, _ = navmesh.random_points_and_polygons(_FLOOR_POINTS, rng, islands)
        air = find_air(scene.vertices[scene.solid_triangles], floor, self.radius, self.cell)
        count = min(
            self.num_goals, num_episodes, max(1, MAX_FIELD_BYTES // (_BYTES_PER_PATH * len(air.fields.centers)))
        )
        air = air.with_goals(air.random_points(count, rng))
        return air, sample_flights(air, num_episodes, rng, self._rules())


def _stored_episodes(arrays: dict[str, np.ndarray], air: Air, num_episodes: int) -> EpisodeSet:
    """Return the episodes of a cache entry; ValueError or KeyError if they do not fit this air."""
    found: dict[str, Any] = {name: arrays[f"episodes_{name}"] for name in EPISODE_ARRAYS}
    check_episode_arrays(found)
    episodes = EpisodeSet(tuple(map(str, range(len(found["start"])))), **found)
    if len(episodes) != num_episodes or not np.array_equal(episodes.goals, air.fields.goals):
        raise ValueError("not stored flights: another number of episodes, or other goals")
    if len(episodes.first_goal) != len(episodes.goals) + 1 or not air.is_free(episodes.start).all():
        raise ValueError("not stored flights: a start is not in free space, or a set has several goals")
    lengths = air.distance(episodes.start, episodes.goal_index)
    if not (np.abs(lengths - episodes.distance) <= _CLOSE).all():
        raise ValueError("not stored flights: lengths that are not those of paths")
    return episodes


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
        ratio = np.maximum(length / np.maximum(straight, 1e-9), 1.0)  # straight paths may be rounded below 1
        fits = (length >= rules.min_distance) & (length <= rules.max_distance)
        fits &= (ratio >= rules.straight_ratio) | (rng.random(batch) <= 20 * (ratio - 0.98) ** 2)
        starts = np.concatenate([starts, points[fits]])
        chosen = np.concatenate([chosen, goal[fits]])
        lengths = np.concatenate([lengths, length[fits]])
        tried += batch
        if len(starts) < num_episodes:
            rules.check_share(len(starts), tried)
    heading = rng.uniform(-np.pi, np.pi, num_episodes).astype(np.float32)
    kept = slice(num_episodes)
    return point_set(starts[kept], heading, goals, chosen[kept, None], lengths[kept, None])
