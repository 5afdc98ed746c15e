"""The kinds of episodes that a task can request for scenes that come without any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pkgutil import resolve_name
from typing import Any, Protocol

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.episodes.floors import FLOORS, floor_islands
from gym_batchnav.episodes.objects import (
    CATEGORIES,
    ObjectInstance,
    ViewRules,
    find_instances,
    numbers_in_scene,
    sample_object_episodes,
)
from gym_batchnav.episodes.sampling import SamplingRules, sample_episodes, sample_tours
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_between, check_choice, check_counts, check_flags, unwrap_numpy

_SHOWN = 20  # categories of a scene in an error
_PACKAGE = __name__.partition(".")[0]


class EpisodeSampler(Protocol):
    """Samples the episodes of a scene.

    Equal samplers share their results, so write your own as a frozen dataclass. The episodes of your own sampler are
    sampled in the process that steps, possibly in a thread, and are not stored in the cache.

    A sampler for agents that do not walk, whose ``Actions`` have another ``make_agents``, also has
    ``prepare(scene, navmesh, num_episodes, rng, cache)``, which returns the scene's ``Navigation``.
    """

    def sample(self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator) -> EpisodeSet:
        """Return ``num_episodes`` episodes of a scene.

        Raises:
            ValueError: If the scene has no place for such episodes.
        """


@dataclass(frozen=True, slots=True)
class PointEpisodes:
    """Pairs of a start and a goal, as in PointNav; see ``sample_episodes``.

    With distances or a ratio other than the defaults, episodes are also sampled for scenes that come with some.

    Attributes:
        floors: Where episodes begin and end, see ``floor_islands``.
        min_distance: Shortest geodesic distance from start to goal, metres.
        max_distance: Longest geodesic distance from start to goal, metres.
        straight_ratio: Episodes whose shortest path is less than this times as long as the straight line are mostly
            left out; 1 keeps all of them. A small ``max_distance`` and a ratio of 1 make easy episodes to begin with.

    Raises:
        ValueError: ``floors`` is unknown, or the distances are not a range.
    """

    floors: str = "main"
    min_distance: float = 1.0
    max_distance: float = 30.0
    straight_ratio: float = 1.1

    def __post_init__(self) -> None:
        check_choice("floors", self.floors, FLOORS)
        check_between(1.0, 1000.0, straight_ratio=self.straight_ratio)
        self._rules()
        unwrap_numpy(self)

    def _rules(self) -> SamplingRules:
        """Return the limits on pairs of a start and a goal; raise ValueError for limits that none can satisfy."""
        return SamplingRules(
            min_distance=self.min_distance, max_distance=self.max_distance, straight_ratio=self.straight_ratio
        )

    def sample(self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator) -> EpisodeSet:
        """Return PointNav episodes."""
        islands = floor_islands(scene, navmesh, self.floors)
        return sample_episodes(navmesh, num_episodes, rng, self._rules(), islands)


@dataclass(frozen=True, slots=True)
class TourEpisodes:
    """A start and several goals in order; see ``sample_tours``.

    Attributes:
        num_goals: Number of goals per episode, 1 to 100.
        floors: Where episodes begin and end, see ``floor_islands``.

    Raises:
        ValueError: A value is out of its range.
    """

    num_goals: int = 3
    floors: str = "main"

    def __post_init__(self) -> None:
        check_counts(num_goals=self.num_goals)
        check_between(1, 100, num_goals=self.num_goals)
        check_choice("floors", self.floors, FLOORS)
        unwrap_numpy(self)

    def sample(self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator) -> EpisodeSet:
        """Return episodes with several goals."""
        islands = floor_islands(scene, navmesh, self.floors)
        return sample_tours(navmesh, num_episodes, self.num_goals, rng, islands=islands)


@dataclass(frozen=True, slots=True)
class ObjectEpisodes:
    """Episodes that lead to view points of objects; see ``sample_object_episodes``.

    Attributes:
        categories: Names of categories, see ``SceneObject.category``; those that a scene lacks are not drawn there.
        per_instance: Whether the goal is one object, instead of any of its category.
        eye_height: Height of the camera above the navmesh from which objects must be seen, metres.
        floors: Where episodes end, see ``floor_islands``.
        aliases: See ``find_instances``; given as a dict, kept as sorted pairs.

    Raises:
        ValueError: Categories repeat or are not a tuple of names, aliases lead to others, or a value is out of its
            range.
    """

    categories: tuple[str, ...] = CATEGORIES
    per_instance: bool = False
    eye_height: float = 1.25
    floors: str = "main"
    aliases: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = self.categories
        fits = isinstance(names, tuple) and names and all(isinstance(name, str) and name for name in names)
        if not fits or len(set(names)) < len(names):
            raise ValueError(f"categories={names!r}: pass a tuple of different names, such as ('chair', 'bed')")
        object.__setattr__(self, "aliases", sorted_aliases(self.aliases, names))
        check_flags(per_instance=self.per_instance)
        check_choice("floors", self.floors, FLOORS)
        _ = self.view_rules  # checks the height
        unwrap_numpy(self)

    @property
    def view_rules(self) -> ViewRules:
        """The rules of the view points."""
        return ViewRules(eye_height=self.eye_height)

    def instances(self, scene: Scene, navmesh: NavMesh) -> list[ObjectInstance]:
        """Return the objects that episodes may lead to, with their view points; see ``find_instances``.

        Raises:
            ValueError: There is none; the message has the categories of the scene's objects.
        """
        islands = floor_islands(scene, navmesh, self.floors)
        instances = find_instances(scene, navmesh, self.categories, self.view_rules, islands, dict(self.aliases))
        if not instances:
            found = numbers_in_scene(scene, self.categories, dict(self.aliases))
            shown = ", ".join(map(repr, sorted(found)[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
            missing = f"no object of the categories {', '.join(self.categories)} has view points in this scene"
            if len(found) < 2 and set(found.values()) <= {None}:
                raise ValueError(
                    f"{missing}, which has no object annotations{shown and f' (it is all {shown})'}: put those of its "
                    "dataset next to its file (HM3D: NAME.semantic.glb, NAME.semantic.txt), or give its nodes names"
                )
            if set(found.values()) != {None}:
                raise ValueError(
                    f"{missing}: none can be seen from where agents can go (it is hidden, or a door is closed). Pass "
                    f"other categories= (--categories) of {shown}, a smaller agent, or in Python "
                    "Episodes(floors='habitat')"
                )
            raise ValueError(
                f"{missing}, which has the categories {shown} (gym-batchnav scene info FILE --json lists all): pass "
                f"some of them as categories= (--categories), or say which is a {self.categories[0]}: "
                f"aliases={{NAME: {self.categories[0]!r}}} (--categories NAME={self.categories[0]})"
            )
        return instances

    def sample(self, scene: Scene, navmesh: NavMesh, num_episodes: int, rng: np.random.Generator) -> EpisodeSet:
        """Return episodes that lead to objects."""
        instances = self.instances(scene, navmesh)
        return sample_object_episodes(navmesh, instances, self.categories, num_episodes, rng, self.per_instance)


def sorted_aliases(aliases: Any, categories: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return aliases of categories as sorted pairs, in lower case as the categories of a scene's objects.

    Raises:
        ValueError: They are not strings, or lead to other categories.
    """
    try:
        pairs = dict(aliases)
    except (TypeError, ValueError):
        pairs = {None: None}
    if not all(isinstance(name, str) for name in pairs) or any(one not in categories for one in pairs.values()):
        raise ValueError(
            f"aliases={aliases!r}: pass a dict of names to categories= ({', '.join(categories)}), such as "
            f"{{'armchair_b': {categories[0]!r}}}"
        )
    return tuple(sorted((name.lower(), category) for name, category in pairs.items()))


def is_rebuildable(sampler: EpisodeSampler) -> bool:
    """Return whether a sampler is one of this package, which its values describe."""
    return type(sampler).__module__.partition(".")[0] == _PACKAGE


def with_floors(sampler: EpisodeSampler, floors: str | None) -> EpisodeSampler:
    """Return a sampler of this package with another rule for its floors unless it is None.

    Raises:
        ValueError: A rule is given for a user's own sampler.
    """
    if floors is None:
        return sampler
    if not is_rebuildable(sampler):
        raise ValueError(f"floors={floors!r} of Episodes: {sampler!r} chooses the floors itself: leave floors out")
    return replace(sampler, floors=floors)  # type: ignore[type-var]


def floors_of(sampler: EpisodeSampler) -> str:
    """Return the rule of a sampler for its floors; the default for a user's own."""
    return str(getattr(sampler, "floors", FLOORS[0])) if is_rebuildable(sampler) else FLOORS[0]


def sampler_to_json(sampler: EpisodeSampler) -> dict[str, Any] | None:
    """Return a sampler of this package as JSON values, for ``sampler_from_json``; None for a user's own."""
    if not is_rebuildable(sampler):
        return None
    values = asdict(sampler)  # type: ignore[call-overload]  # all are dataclasses
    return {"module": type(sampler).__module__.removeprefix(_PACKAGE), "kind": type(sampler).__name__, **values}


def sampler_from_json(values: Mapping[str, Any]) -> EpisodeSampler:
    """Return the sampler that ``sampler_to_json`` described."""
    fields: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in values.items()}
    kind: str = fields.pop("kind")
    sampler: EpisodeSampler = resolve_name(f"{_PACKAGE}{fields.pop('module')}:{kind}")(**fields)
    return sampler
