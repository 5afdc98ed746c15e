"""ObjectNav: go to any object of a category, and call STOP next to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.episodes.objects import CATEGORIES
from gym_batchnav.episodes.samplers import ObjectEpisodes
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.task.api import Sensor, TaskState
from gym_batchnav.task.pointnav import GoalTask
from gym_batchnav.task.sensors import GPS, Compass


@dataclass(frozen=True, slots=True)
class ObjectGoal(Sensor):
    """The category of the object to go to [1] int64, a row of the task's categories: Habitat's ``objectgoal``.

    Attributes:
        num_categories: Number of categories.
    """

    num_categories: int = len(CATEGORIES)

    name = "objectgoal"

    def __post_init__(self) -> None:
        check_counts(num_categories=self.num_categories)

    @property
    def space(self) -> Box:  # type: ignore[override]  # a constant that depends on a field
        """The space of one reading."""
        return Box(0, self.num_categories - 1, (1,), np.int64)

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the categories [N, 1]."""
        return state.episodes.category.astype(np.int64)[:, None]


@dataclass(frozen=True, slots=True)
class ObjectNav(GoalTask):
    """Habitat's ObjectNav: STOP near a view point of any object of the category is a success.

    A view point is a place on the navmesh at most 1 m from an object, from which the object is seen.
    ``distance_to_goal`` is the geodesic distance to the nearest view point of the category.

    Attributes:
        categories: Names of the categories, see ``Scene.objects``. Generated homes have those of
            ``homes.SEMANTIC_CLASSES``; without annotations, the category is an object's name without its number.
        aliases: The category that stands for another one of a scene's objects: ``{"armchair_b": "chair"}``.
        success_distance: Geodesic metres to a view point below which STOP succeeds; Habitat's challenges use 0.1.
        success_reward: Reward of a success.
        step_reward: Reward of every step.
        eye_height: Height of the camera above the navmesh from which objects must be seen in sampled episodes, metres.
    """

    categories: tuple[str, ...] = CATEGORIES
    success_distance: float = 0.1
    success_reward: float = 2.5
    step_reward: float = -0.01
    eye_height: float = 1.25
    aliases: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        GoalTask.__post_init__(self)
        object.__setattr__(self, "aliases", self.sampler.aliases)  # the sampler checks all fields

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The category, GPS and compass."""
        return ObjectGoal(len(self.categories)), GPS(), Compass()

    @property
    def sampler(self) -> ObjectEpisodes:  # type: ignore[override]  # a constant that depends on fields
        """Samples the episodes of scenes without an episode file."""
        return ObjectEpisodes(self.categories, eye_height=self.eye_height, aliases=self.aliases)
