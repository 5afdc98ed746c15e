"""Objects as goals: their instances and view points, and episodes that lead to them.

A view point is a place on the navmesh at most a metre from an object, from which a camera sees the object. These are
Habitat's rules for ObjectNav (habitat-lab, ``object_nav_task.py``): an agent succeeds where it calls STOP within 0.1 m
of any view point of any object of the category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.episodes.floors import floor_islands
from gym_batchnav.episodes.sampling import SamplingRules
from gym_batchnav.geometry import Camera, convex_hull, look_at
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.categories import number_of
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_between, check_counts, check_length

CATEGORIES = ("chair", "bed", "plant", "toilet", "tv", "sofa")
"""The categories of Habitat's ObjectNav challenges of 2022 and 2023 (there, "tv" is called "tv_monitor")."""

_VIEW = Camera(width=32, height=32, hfov_deg=90.0)
_VIEWS_AT_ONCE = 256
_BELOW_CENTRE = 1.0  # metres below an object's centre, where the nearest floor is searched for view points
_MAX_ROUNDS = 1000  # of tries to find starts
_POINTS_TRIED = 1000  # random points, one of which must be a possible start for an object to be a goal
_MAX_PAIRS = 2**20  # of starts and goals compared at a time, which limits the memory
# The nearest goal along paths is searched among this many nearest in a straight line, then among 8 times as many, ...
_NEAREST_TRIED = 16


@dataclass(frozen=True, slots=True)
class ViewRules:
    """The rules of view points; the distance is Habitat's.

    Attributes:
        max_distance: Largest horizontal distance from the convex outline of the object, metres.
        spacing: Distance between neighbouring view points, metres.
        eye_height: Height of the camera above the navmesh, metres.
        min_coverage: Least fraction of the pixels of a 90-degree view towards the object that must show it.
        min_points: Objects with fewer view points are left out, since agents would miss them.

    Raises:
        ValueError: A value is out of its range.
    """

    max_distance: float = 1.0
    spacing: float = 0.15
    eye_height: float = 1.25
    min_coverage: float = 0.005
    min_points: int = 10

    def __post_init__(self) -> None:
        check_length(max_distance=self.max_distance, spacing=self.spacing)
        check_between(-1000, 1000, eye_height=self.eye_height)
        check_between(0, 1, min_coverage=self.min_coverage)
        check_counts(min_points=self.min_points)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectInstance:
    """One object of a scene with its view points."""

    object_id: int  # semantic id
    name: str
    category: str
    center: np.ndarray  # [3] float32, metres
    points: np.ndarray  # [V, 3] float32, metres, on the navmesh
    coverage: np.ndarray  # [V] float32, fraction of the view's pixels that show the object


def find_instances(
    scene: Scene,
    navmesh: NavMesh,
    categories: Sequence[str],
    rules: ViewRules | None = None,
    islands: np.ndarray | None = None,
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> list[ObjectInstance]:
    """Return the objects of some categories that have view points, with these, ordered by category.

    Categories are recognised under their other names too, see ``scene.categories.number_of``: a couch is a sofa.

    Args:
        scene: The scene.
        navmesh: Its navmesh.
        categories: Names of the categories, see ``SceneObject.category``.
        rules: The rules of view points.
        islands: [I] bool, the islands on which view points lie, see ``floor_islands``; None for all that are large
            enough for Habitat's generator.
        aliases: The category that stands for another one of the scene's objects: ``{"armchair_b": "chair"}``.

    Raises:
        RuntimeError: If Embree, which traces the rays, cannot run here.
    """
    rules = rules or ViewRules()
    known = numbers_in_scene(scene, categories, aliases)
    wanted = [
        (number, object_id, one.name)
        for object_id, one in enumerate(scene.objects, 1)
        if (number := known[one.category]) is not None
    ]
    islands = floor_islands(scene, navmesh, "habitat") if islands is None else islands
    drawer = _ObjectViews(scene, rules.eye_height)
    try:
        found = []
        for number, object_id, name in sorted(wanted):
            vertices = scene.vertices[np.unique(scene.triangles[scene.triangle_object == object_id])]
            if not len(vertices):
                continue
            center = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
            points = _candidates(navmesh, vertices, center, rules, islands)
            coverage = drawer.coverage(object_id, center, points)
            seen = coverage >= rules.min_coverage
            if seen.sum() >= rules.min_points:
                found.append(ObjectInstance(object_id, name, categories[number], center, points[seen], coverage[seen]))
    finally:
        drawer.close()
    return found


def numbers_in_scene(scene: Scene, categories: Sequence[str], aliases: Mapping[str, str]) -> dict[str, int | None]:
    """Return the number in ``categories`` of each category of a scene's objects; None for others."""
    numbers = {name: number for number, name in enumerate(categories)}
    return {one.category: number_of(aliases.get(one.category, one.category), numbers) for one in scene.objects}


class _ObjectViews:
    """Measures how much of an object is seen from points of a scene."""

    def __init__(self, scene: Scene, eye_height: float) -> None:
        self._eye_height = eye_height
        self._renderer = make_renderer("embree", SceneLibrary.from_scenes([scene]))
        self._target = self._renderer.target(_VIEW, ("semantic",), num_views=_VIEWS_AT_ONCE, buffers=1)

    def coverage(self, object_id: int, center: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return the fraction [V] float32 of pixels that show an object in views from points [V, 3] at its centre."""
        coverage = np.empty(len(points), np.float32)
        for first in range(0, len(points), _VIEWS_AT_ONCE):
            chunk = points[first : first + _VIEWS_AT_ONCE]
            eyes = chunk + np.array([0, self._eye_height, 0], np.float32)
            # A camera in the centre has no direction to look in.
            eyes[:, 0] += np.where(np.linalg.norm(eyes - center, axis=1) < 1e-3, np.float32(1e-2), np.float32(0))
            views = look_at(eyes, center)
            ids = self._target.render(np.zeros(len(chunk), np.int32), views)["semantic"]
            coverage[first : first + len(chunk)] = (ids == object_id).mean(axis=(1, 2, 3))
        return coverage

    def close(self) -> None:
        """Release the renderer."""
        self._target.close()
        self._renderer.close()


def _candidates(
    navmesh: NavMesh, vertices: np.ndarray, center: np.ndarray, rules: ViewRules, islands: np.ndarray
) -> np.ndarray:
    """Return the points [V, 3] float32 of a grid on the navmesh that are near enough to an object."""
    reach = rules.max_distance
    low = np.ceil((vertices.min(axis=0) - reach) / rules.spacing)
    high = np.floor((vertices.max(axis=0) + reach) / rules.spacing)
    x, z = (np.arange(low[axis], high[axis] + 1) * rules.spacing for axis in (0, 2))
    grid = np.stack([axis.reshape(-1) for axis in np.meshgrid(x, z)], axis=1)
    grid = grid[_outline_distance(vertices[:, [0, 2]], grid) <= reach]
    points = np.insert(grid, 1, center[1] - _BELOW_CENTRE, axis=1)
    snapped, polygons = navmesh.snap_with_polygon(points)
    on_grid = np.hypot(*(snapped - points)[:, [0, 2]].T) < 0.1 * rules.spacing
    fits = (polygons >= 0) & on_grid & islands[navmesh.polygon_island[polygons]] & (snapped[:, 1] <= center[1] + 0.5)
    return snapped[fits]


def _outline_distance(vertices: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distance [M] of points [M, 2] to the convex hull of vertices [V, 2], 0 inside."""
    hull = convex_hull(vertices)
    distance = np.full(len(points), np.inf)
    inside = np.full(len(points), len(hull) > 2)
    for corner, side in zip(hull, np.roll(hull, -1, axis=0) - hull, strict=True):
        way = points - corner
        share = np.clip(way @ side / max(side @ side, 1e-12), 0, 1)
        distance = np.minimum(distance, np.linalg.norm(way - share[:, None] * side, axis=1))
        inside &= side[0] * way[:, 1] >= side[1] * way[:, 0]
    return np.where(inside, 0.0, distance)


def sample_object_episodes(
    navmesh: NavMesh,
    instances: Sequence[ObjectInstance],
    categories: Sequence[str],
    num_episodes: int,
    rng: np.random.Generator,
    per_instance: bool = False,
) -> EpisodeSet:
    """Sample episodes that lead to objects.

    The category is uniform among those of the scene that agents can walk to, and the start is uniform among the points
    whose geodesic distance to the nearest view point lies within the limits of SamplingRules. Headings are uniform.

    Args:
        navmesh: The navmesh.
        instances: The objects, ordered by category; see ``find_instances``.
        categories: Names of all categories.
        num_episodes: Number of episodes.
        rng: Source of random numbers.
        per_instance: Whether the goal is one object, chosen uniformly within the category, instead of any.

    Raises:
        ValueError: If there are no instances, or no start at such a distance from one, or these are too rare.
    """
    rules = SamplingRules()
    if not instances:
        raise ValueError(
            f"no object of the categories {', '.join(categories)} has view points in this scene: choose others"
        )
    owner = np.repeat(np.arange(len(instances)), [len(one.points) for one in instances])  # of every goal
    numbers = np.array([categories.index(one.category) for one in instances])  # of every instance
    group = np.arange(len(instances)) if per_instance else np.unique(numbers, return_inverse=True)[1]  # its set
    goals = np.concatenate([one.points for one in instances])
    first_goal = np.searchsorted(group[owner], np.arange(group.max() + 2)).astype(np.int32)
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, navmesh.tables(goals, first_goal=first_goal))
    reachable = _have_starts(navmesh, navmeshes, len(first_goal) - 1, rng, rules)
    if not reachable.any():
        raise _no_start(rules)
    possible = reachable[group]
    present = np.unique(numbers[possible])
    category = present[rng.integers(len(present), size=num_episodes)]
    goal_set = np.array([rng.choice(group[possible & (numbers == number)]) for number in category], np.int32)
    start, distance = _starts(navmesh, navmeshes, goal_set, rng, rules)
    nearest = nearest_goals(navmesh, start, goals, first_goal, goal_set, distance)
    heading = rng.uniform(-np.pi, np.pi, num_episodes).astype(np.float32)
    view = nearest
    if per_instance:
        coverage = np.concatenate([one.coverage for one in instances])
        view = np.array([_good_view(coverage, first_goal[one : one + 2], rng) for one in goal_set], np.int32)
    return EpisodeSet(
        ids=tuple(str(index) for index in range(num_episodes)),
        start=start,
        heading=heading,
        goals=goals,
        targets=np.stack([one.center for one in instances])[owner].astype(np.float32),
        first_goal=first_goal,
        tour=goal_set[:, None],
        leg_distance=distance[:, None],
        nearest_goal=nearest,
        view_index=view,
        category=category.astype(np.int32),
        categories=tuple(categories),
    )


def _no_start(rules: SamplingRules) -> ValueError:
    """Return the error of objects to which no start has an allowed distance."""
    return ValueError(
        f"no start found {rules.min_distance:g} to {rules.max_distance:g} m from the objects: choose other "
        "categories, or run episodes of your own"
    )


def _good_view(coverage: np.ndarray, ends: np.ndarray, rng: np.random.Generator) -> int:
    """Return one of the goals from ``ends[0]`` to ``ends[1] - 1`` whose view shows at least as much as the median."""
    mine = coverage[ends[0] : ends[1]]
    return int(ends[0] + rng.choice(np.flatnonzero(mine >= np.median(mine))))


def _have_starts(
    navmesh: NavMesh, navmeshes: NavMeshAgents, num_sets: int, rng: np.random.Generator, rules: SamplingRules
) -> np.ndarray:
    """Return whether any of some random points lies at an allowed distance from each set [H] bool of slot 0.

    View points in a closed room may have no such start.
    """
    points, polygons = navmesh.random_points_and_polygons(_POINTS_TRIED, rng)
    slots = np.zeros(_POINTS_TRIED, np.int32)
    found = np.empty((num_sets, _POINTS_TRIED), np.float32)
    for number, row in enumerate(found):
        navmeshes.distance(slots, polygons, points, np.full(_POINTS_TRIED, number, np.int32), row)
    return np.any((found >= rules.min_distance) & (found <= rules.max_distance), axis=1)


def _starts(
    navmesh: NavMesh, navmeshes: NavMeshAgents, goal_set: np.ndarray, rng: np.random.Generator, rules: SamplingRules
) -> tuple[np.ndarray, np.ndarray]:
    """Return starts [E, 3] float32 and their distances [E] float32 to the sets [E] int32 of slot 0."""
    start = np.empty((len(goal_set), 3), np.float32)
    distance = np.empty(len(goal_set), np.float32)
    left = np.arange(len(goal_set))
    for _ in range(_MAX_ROUNDS):
        tried = np.resize(left, max(len(left), _POINTS_TRIED))  # several points for each of the last ones
        points, polygons = navmesh.random_points_and_polygons(len(tried), rng)
        found = np.empty(len(tried), np.float32)
        navmeshes.distance(np.zeros(len(tried), np.int32), polygons, points, goal_set[tried], found)
        fits = np.nonzero((found >= rules.min_distance) & (found <= rules.max_distance))[0]
        rows, first = np.unique(tried[fits], return_index=True)
        start[rows] = points[fits[first]]
        distance[rows] = found[fits[first]]
        left = np.setdiff1d(left, rows)
        if not len(left):
            return start, distance
    raise _no_start(rules)


def nearest_goals(
    navmesh: NavMesh,
    start: np.ndarray,
    goals: np.ndarray,
    first_goal: np.ndarray,
    goal_set: np.ndarray,
    distance: np.ndarray,
) -> np.ndarray:
    """Return the goal [E] int32 of each set that is nearest to a start.

    Args:
        navmesh: The navmesh.
        start: [E, 3], metres.
        goals: [G, 3], metres.
        first_goal: [H + 1] int, first goal of every set.
        goal_set: [E] int, the set of every start.
        distance: [E], metres, the geodesic distance to the nearest goal of the set.
    """
    nearest = np.empty(len(start), np.int32)
    for number in np.unique(goal_set):
        members = np.arange(first_goal[number], first_goal[number + 1])
        of_set = np.nonzero(goal_set == number)[0]
        for rows in np.array_split(of_set, -(-len(of_set) * len(members) // _MAX_PAIRS)):
            nearest[rows] = _nearest_of_set(navmesh, start[rows], goals, members, distance[rows])
    return nearest


def _nearest_of_set(
    navmesh: NavMesh, start: np.ndarray, goals: np.ndarray, members: np.ndarray, distance: np.ndarray
) -> np.ndarray:
    """Return which of the goals ``members`` [M] is nearest to each start [R, 3], at a distance [R]; [R] int."""
    nearest = np.empty(len(start), np.int32)
    rows = np.arange(len(start))
    away = (np.subtract.outer(start[:, axis], goals[members, axis]) for axis in range(3))
    straight = np.sqrt(sum(part**2 for part in away))  # [R, M]; ten times as fast as np.linalg.norm
    size = 0
    while len(rows) and size < len(members):
        size = min(max(_NEAREST_TRIED, 8 * size), len(members))
        tried = np.argpartition(straight, size - 1, axis=1)[:, :size]
        # The nearest goal is no farther in a straight line than along the path.
        near = np.take_along_axis(straight, tried, axis=1) <= distance[rows, None] + 1e-3
        row, column = np.nonzero(near)
        lengths = np.full(tried.shape, np.inf)
        lengths[near] = navmesh.geodesic_distance(start[rows[row]], goals[members[tried[row, column]]])
        nearest[rows] = members[np.take_along_axis(tried, lengths.argmin(axis=1)[:, None], axis=1)[:, 0]]
        missed = lengths.min(axis=1) > distance[rows] + 1e-3  # the nearest one is mostly among the first
        rows = rows[missed]
        straight = straight[missed]
    return nearest
