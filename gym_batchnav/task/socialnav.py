"""SocialNav: PointNav among people who walk about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gym_batchnav.system.numbers import check_between, check_finite
from gym_batchnav.task.api import Measure, Sensor, TaskState
from gym_batchnav.task.crowd import (
    BodyCollisions,
    MinBodyDistance,
    NearestBodies,
    PersonalSpace,
    TimeToCollision,
    nearest_gap,
    shared_worlds,
)
from gym_batchnav.task.pointnav import PointNav


@dataclass(frozen=True, slots=True)
class SocialNav(PointNav):
    """Go to a point among people: PointNav with penalties for touching them and for coming too near.

    Attributes:
        touch_reward: Reward of a step in which another body stops the agent.
        near_reward: Reward of a step in which the agent is nearer to another body than ``personal_space``.
        personal_space: Metres between the discs of both.
        detector: The sensor of the others; None for agents that must see them in images.
    """

    touch_reward: float = -0.1
    near_reward: float = -0.02
    personal_space: float = 0.45
    detector: Sensor | None = field(default=NearestBodies())

    def __post_init__(self) -> None:
        """Raise ValueError unless every number is finite and the personal space is from 0 to 10 m."""
        PointNav.__post_init__(self)
        check_finite(touch_reward=self.touch_reward, near_reward=self.near_reward)
        check_between(0.0, 10.0, personal_space=self.personal_space)

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The sensor of the goal, and that of the others."""
        return (self.goal_sensor,) if self.detector is None else (self.goal_sensor, self.detector)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """PointNav's measures, and those of the others."""
        space = PersonalSpace(self.personal_space)
        return (*PointNav.measures, BodyCollisions(), space, MinBodyDistance(), TimeToCollision())

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        worlds = shared_worlds(state, "SocialNav()")
        touched = worlds.state.touched[:, : worlds.num_agents].ravel()
        near = nearest_gap(state, "SocialNav()") < self.personal_space
        return PointNav.reward(self, state, measures) + self.touch_reward * touched + self.near_reward * near
