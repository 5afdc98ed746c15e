"""Preparation of one scene for flying agents: its air and episodes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gym_batchnav.episodes.episode_set import EPISODE_ARRAYS, EpisodeSet, check_episode_arrays
from gym_batchnav.episodes.flight import FlightEpisodes
from gym_batchnav.flight.air import Air, air_from_arrays
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.loader import SceneRefused, reason_of
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.navmesh.record import NAVMESH_ARRAYS
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.simplify import digest_of_geometry
from gym_batchnav.system.code import code_digest
from gym_batchnav.system.progress import report_stage

flight_digest = partial(code_digest, "episodes/flight.py", without=("navmesh/build/",), packages=("numpy", "numba"))
_CLOSE = 0.05  # metres by which a stored length may differ from the one computed from stored paths


@dataclass(frozen=True, slots=True, eq=False)
class FlightNavigation:
    """A scene prepared for flying agents; it has the fields and methods of ``Navigation`` that a simulator uses."""

    navmesh: NavMesh
    tables: Air
    episode_set: EpisodeSet
    start_polygon: np.ndarray  # [E] int32, zeros

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        navmesh = [getattr(self.navmesh.data, name) for name in NAVMESH_ARRAYS]
        own = sum(array.nbytes for array in (*navmesh, self.start_polygon))
        return self.tables.nbytes + self.episode_set.nbytes + own

    def is_navigable(self, points: np.ndarray) -> np.ndarray:
        """Return whether an agent at each of the points [M, 3] touches no surface [M] bool."""
        return self.tables.is_free(points)

    def shortest_path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """Return the points [K, 3] float32 of the shortest path from a start [3] to a goal [3] of an episode."""
        goals = self.tables.fields.goals
        return self.tables.shortest_path(start, int(np.linalg.norm(goals - goal, axis=1).argmin()))

    def snap_with_polygon(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points [M, 3] float32 themselves, and zeros [M] int32."""
        return np.asarray(points, np.float32), np.zeros(len(points), np.int32)


def prepare_flight(
    scene: Scene,
    navmesh: NavMesh,
    navmesh_digest: str,
    sampler: FlightEpisodes,
    num_episodes: int,
    cache: DiskCache | None,
) -> FlightNavigation:
    """Return the air and the episodes of a scene, from the cache or made and stored there.

    Raises:
        ValueError: The scene has no place to fly; the message names it.
    """
    solid = hashlib.sha256(np.ascontiguousarray(scene.solid_triangles).data).hexdigest()
    content = f"{digest_of_geometry(scene)}-{solid}-{navmesh_digest}-{scene.name}"
    key = f"flight-{flight_digest()}-{sampler!r}-{num_episodes}-{content}"
    arrays = cache.load(key) if cache is not None else None
    if arrays is not None:
        try:
            air = air_from_arrays(arrays, sampler.radius)
            episodes = _stored_episodes(arrays, air, num_episodes)
            return FlightNavigation(navmesh, air, episodes, np.zeros(num_episodes, np.int32))
        except (ValueError, KeyError, TypeError, IndexError):
            pass  # an entry that does not validate is replaced
    report_stage(f"{scene.name}: free space and shortest paths in the air")
    rng = np.random.default_rng(list(scene.name.encode(errors="surrogatepass")))
    try:
        air, episodes = sampler.sample_with_air(scene, navmesh, num_episodes, rng)
    except ValueError as error:
        raise SceneRefused(scene.name, reason_of(error)) from error
    if cache is not None:
        cache.store(key, {**air.arrays(), **{f"episodes_{name}": value for name, value in episodes.arrays().items()}})
    return FlightNavigation(navmesh, air, episodes, np.zeros(num_episodes, np.int32))


def _stored_episodes(arrays: dict[str, np.ndarray], air: Air, num_episodes: int) -> EpisodeSet:
    """Return the episodes of a cache entry.

    Raises:
        ValueError: They are not such as are sampled in this air.
        KeyError: An array is missing.
    """
    found: dict[str, Any] = {name: arrays[f"episodes_{name}"] for name in EPISODE_ARRAYS}
    check_episode_arrays(found)
    episodes = EpisodeSet(tuple(map(str, range(len(found["start"])))), **found)
    if len(episodes) != num_episodes or not np.array_equal(episodes.goals, air.fields.goals):
        raise ValueError("not stored flights: another number of episodes, or other goals")
    if len(episodes.first_goal) != len(episodes.goals) + 1 or not air.is_free(episodes.start).all():
        raise ValueError("not stored flights: a start is no free space, or goals are shared")
    lengths = air.distance(episodes.start, episodes.goal_index)
    if not (np.abs(lengths - episodes.distance) <= _CLOSE).all():
        raise ValueError("not stored flights: lengths that are not those of paths")
    return episodes
