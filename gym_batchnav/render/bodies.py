"""Moving bodies, such as other agents, that are drawn into views of scenes.

A body is a scene in a library of bodies, with a pose that changes from batch to batch. Renderers draw it
over the scene of a view with the depth of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class BodyViews:
    """The bodies to draw in a batch of n views: one row per body and view that may show it."""

    view: np.ndarray  # [E] int, the view, ascending
    slot: np.ndarray  # [E] int, the slot of the library of bodies
    pose: np.ndarray  # [E, 4, 4] float32, rigid, from the body's frame to the world
    object_id: np.ndarray  # [E] int32, the semantic id that its pixels show, at least 0

    @classmethod
    def none(cls) -> BodyViews:
        """Return a record without bodies."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, np.zeros((0, 4, 4), np.float32), np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.view)

    def of_views(self, first: int, last: int) -> BodyViews:
        """Return the rows of the views from ``first`` up to but excluding ``last``, which are numbered from 0."""
        rows = slice(*np.searchsorted(self.view, (first, last)).tolist())
        return BodyViews(self.view[rows] - first, self.slot[rows], self.pose[rows], self.object_id[rows])

    def check(self, num_views: int, num_slots: int) -> None:
        """Raise ValueError unless a kernel reads within its arrays: shapes, types, views and slots must be valid."""
        count = len(self.view)
        if count and not num_slots:
            raise ValueError("this renderer has no shapes of bodies: pass bodies= to make_renderer")
        for name, limit in (("view", num_views), ("slot", num_slots)):
            values = getattr(self, name)
            if values.shape != (count,) or values.dtype.kind not in "iu":
                raise ValueError(f"bodies.{name} is {values.dtype} {values.shape}: pass integers ({count},)")
            if count and not (values.min() >= 0 and values.max() < limit):
                raise ValueError(
                    f"bodies.{name} has values from {values.min()} to {values.max()}, not 0 to {limit - 1}"
                )
        if (self.view[1:] < self.view[:-1]).any():
            raise ValueError("bodies.view is not in ascending order: sort the rows by view")
        if self.pose.shape != (count, 4, 4) or self.pose.dtype != np.float32:
            raise ValueError(f"bodies.pose is {self.pose.dtype} {self.pose.shape}: pass float32 ({count}, 4, 4)")
        if self.object_id.shape != (count,) or self.object_id.dtype != np.int32:
            raise ValueError(
                f"bodies.object_id is {self.object_id.dtype} {self.object_id.shape}: pass int32 ({count},)"
            )
        if count and self.object_id.min() < 0:
            raise ValueError(f"bodies.object_id has a value of {self.object_id.min()}: pass ids of at least 0")


def body_spheres(bounds: np.ndarray) -> np.ndarray:
    """Return the bounding spheres [S, 4] float32 (centre, radius) of bodies with bounds [S, 2, 3], metres."""
    centre = bounds.mean(axis=1)
    radius = np.linalg.norm(bounds[:, 1] - bounds[:, 0], axis=1) / 2
    return np.concatenate([centre, radius[:, None]], axis=1).astype(np.float32)
