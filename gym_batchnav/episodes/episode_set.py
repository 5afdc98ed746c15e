"""EpisodeSet: the episodes of one scene as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)  # no slots: cached properties
class EpisodeSet:
    """The episodes of one scene, one row each.

    Goals are stored separately because episodes may share them. They form sets: an agent that reaches any goal of a set
    has reached the set. In PointNav each set holds one goal. An episode may be a tour, a sequence of sets to be reached
    in order.
    """

    ids: tuple[str, ...]  # [E] names from the file, or "0", "1", ...
    start: np.ndarray  # [E, 3] float32, metres, on the navmesh
    heading: np.ndarray  # [E] float32, radians
    goals: np.ndarray  # [G, 3] float32, metres
    targets: np.ndarray  # [G, 3] float32, metres; centre of the object that is seen from each goal, or the goal itself
    first_goal: np.ndarray  # [H + 1] int32, first goal of every set
    tour: np.ndarray  # [E, T] int32, the sets to be reached, in order; -1 after the last
    leg_distance: np.ndarray  # [E, T] float32, geodesic length of every leg of the tour, metres; 0 after the last
    nearest_goal: np.ndarray  # [E] int32, the goal of the first set that is nearest to the start
    view_index: np.ndarray  # [E] int32, the goal from which a goal camera looks
    category: np.ndarray  # [E] int32, row of categories; 0 if there are none
    categories: tuple[str, ...] = ()  # names of the objects' categories

    def __len__(self) -> int:
        return len(self.start)

    @property
    def goal_index(self) -> np.ndarray:
        """[E] int32: the first set of every episode."""
        return self.tour[:, 0]

    @property
    def goal(self) -> np.ndarray:
        """[E, 3] float32, metres: the first goal of every episode, the nearest one of its set."""
        return self.goals[self.nearest_goal]

    @property
    def target(self) -> np.ndarray:
        """[E, 3] float32, metres: the target of the goal that is nearest to the start."""
        return self.targets[self.nearest_goal]

    @cached_property
    def num_goals(self) -> np.ndarray:
        """[E] int64: the number of sets of every tour."""
        return (self.tour >= 0).sum(axis=1)

    @cached_property
    def distance(self) -> np.ndarray:
        """[E] float32, metres: the geodesic distance from start to goal, or the length of the shortest tour."""
        return self.leg_distance.sum(axis=1)

    def tour_goals(self, row: int) -> np.ndarray:
        """Return the goals [n, 3] float32, metres, of an episode in order: the first ones of their sets.

        Of the first set it is the goal that is nearest to the start.
        """
        sets = self.tour[row]
        goals = self.goals[self.first_goal[sets[sets >= 0]]]
        goals[0] = self.goals[self.nearest_goal[row]]
        return goals

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def rows(self, kept: np.ndarray, **changes: Any) -> EpisodeSet:
        """Return the episodes of a mask [E] bool, with other values of the fields in ``changes``."""
        own = ("start", "heading", "tour", "leg_distance", "nearest_goal", "view_index", "category")
        ids = tuple(name for name, keep in zip(self.ids, kept, strict=True) if keep)
        return replace(self, **{"ids": ids, **{name: getattr(self, name)[kept] for name in own}, **changes})

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name."""
        return {name: getattr(self, name) for name in EPISODE_ARRAYS}


EPISODE_ARRAYS = (
    "start", "heading", "goals", "targets", "first_goal", "tour", "leg_distance", "nearest_goal", "view_index",
    "category",
)  # fmt: skip
"""Names of the arrays of an EpisodeSet."""


def episode_set(
    start: np.ndarray, heading: np.ndarray, goal: np.ndarray, distance: np.ndarray, ids: tuple[str, ...] = ()
) -> EpisodeSet:
    """Return an EpisodeSet with equal goals stored once.

    Args:
        start: [E, 3], metres.
        heading: [E], radians.
        goal: [E, 3], metres.
        distance: [E], geodesic, metres.
        ids: [E] names; ``"0"``, ``"1"``, ... if there are none.
    """
    goals, index = np.unique(np.asarray(goal, np.float32).reshape(-1, 3), axis=0, return_inverse=True)
    return point_set(start, heading, goals, index.reshape(-1, 1), np.asarray(distance)[:, None], ids)


def tour_set(start: np.ndarray, heading: np.ndarray, goals: np.ndarray, leg_distance: np.ndarray) -> EpisodeSet:
    """Return an EpisodeSet of tours.

    Args:
        start: [E, 3], metres.
        heading: [E], radians.
        goals: [E, T, 3], metres, in order.
        leg_distance: [E, T], geodesic, metres.
    """
    tour = np.arange(leg_distance.size).reshape(leg_distance.shape)
    return point_set(start, heading, np.asarray(goals).reshape(-1, 3), tour, leg_distance)


def point_set(
    start: np.ndarray,
    heading: np.ndarray,
    goals: np.ndarray,
    tour: np.ndarray,
    leg_distance: np.ndarray,
    ids: tuple[str, ...] = (),
) -> EpisodeSet:
    """Return an EpisodeSet whose sets hold one goal each.

    Args:
        start: [E, 3], metres.
        heading: [E], radians.
        goals: [G, 3], metres.
        tour: [E, T] int, the goals of each episode in order; -1 after the last.
        leg_distance: [E, T], geodesic, metres.
        ids: [E] names; ``"0"``, ``"1"``, ... if there are none.
    """
    goals = np.asarray(goals, np.float32)
    tour = tour.astype(np.int32)
    return EpisodeSet(
        ids=ids or tuple(map(str, range(len(start)))),
        start=np.asarray(start, np.float32),
        heading=np.asarray(heading, np.float32),
        goals=goals,
        targets=goals,
        first_goal=np.arange(len(goals) + 1, dtype=np.int32),
        tour=tour,
        leg_distance=np.asarray(leg_distance, np.float32),
        nearest_goal=tour[:, 0],
        view_index=tour[:, 0],
        category=np.zeros(len(start), np.int32),
    )


def check_episode_arrays(arrays: dict[str, np.ndarray]) -> None:
    """Raise ValueError or KeyError unless arrays by name, such as those of a cache, can form an EpisodeSet.

    Every index must lie within the array that it indexes.
    """
    count = len(arrays["start"])
    if not count or not len(arrays["first_goal"]):
        raise ValueError("episodes: there must be at least one, with at least one set of goals")
    num_goals = len(arrays["goals"])
    num_sets = len(arrays["first_goal"]) - 1
    tour_length = arrays["tour"].shape[1] if arrays["tour"].ndim == 2 else 0
    shapes: dict[str, tuple[tuple[int, ...], type]] = {
        "start": ((count, 3), np.float32), "heading": ((count,), np.float32), "goals": ((num_goals, 3), np.float32),
        "targets": ((num_goals, 3), np.float32), "first_goal": ((num_sets + 1,), np.int32),
        "tour": ((count, max(tour_length, 1)), np.int32),
        "leg_distance": ((count, max(tour_length, 1)), np.float32), "nearest_goal": ((count,), np.int32),
        "view_index": ((count,), np.int32), "category": ((count,), np.int32),
    }  # fmt: skip
    for name, (shape, dtype) in shapes.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != dtype or (dtype is np.float32 and not np.isfinite(array).all()):
            raise ValueError(
                f"episodes: {name} is {array.dtype} {array.shape}, expected finite {np.dtype(dtype)} {shape}"
            )
    limits = {"tour": (-1, num_sets), "nearest_goal": (0, num_goals), "view_index": (0, num_goals)}
    for name, (low, high) in limits.items():
        if not (arrays[name].min() >= low and arrays[name].max() < high):
            raise ValueError(f"episodes: {name} must lie in [{low}, {high})")
    first = arrays["first_goal"]
    if first[0] != 0 or first[-1] != num_goals or (np.diff(first) < 1).any():
        raise ValueError(f"episodes: first_goal must rise from 0 to {num_goals}")
    visits = arrays["tour"] >= 0
    if not visits[:, 0].all() or (visits[:, 1:] & ~visits[:, :-1]).any():
        raise ValueError("episodes: a row of tour must have one or more indices of goal sets, and then only -1")
    if arrays["category"].min() < 0 or (arrays["leg_distance"] < 0).any():
        raise ValueError("episodes: categories and distances must not be negative")
