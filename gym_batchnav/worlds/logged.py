"""Bodies that do what a log says: as they did then, or with regard to others that are in their way now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.system.numbers import check_flags
from gym_batchnav.worlds.api import BodyMotion, MovingBodies
from gym_batchnav.worlds.log import WorldLog

HURRY = 1.5  # a reactive body walks at most this much faster than it ever did in the log
WINDOW = 16  # rows of the log by which a reactive body may get on in a step


@dataclass(frozen=True, eq=False)
class LoggedBodies(MovingBodies):
    """The bodies of a log, in the scene where they were recorded.

    By default they go their way whatever is in it, and agents stop at them. Reactive bodies walk along their logged
    paths, wait where others stop them, and then hurry after where the log has them. After the end of the log they stand
    where it ends, or are absent if they were.

    They begin where they began in the log, even if an agent stands there. To put an agent in the place of a logged one,
    leave that out, and begin its episode: ``LoggedBodies(log, without=(0,))`` and
    ``reset(options={"episode_index": ...})``.

    Attributes:
        log: What they did.
        reactive: Whether others can stop them.
        without: Columns of the log that are left out.

    Raises:
        ValueError: No body is left, or one that is left out is not in the log.
    """

    log: WorldLog
    reactive: bool = False
    without: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError unless bodies are left."""
        check_flags(reactive=self.reactive)
        total = self.log.num_bodies
        if not set(self.without) < set(range(total)):
            raise ValueError(f"without={self.without}: pass columns of the log, 0 to {total - 1}, but not all of them")

    @cached_property
    def columns(self) -> np.ndarray:
        """The columns of the log, [num] int."""
        return np.array([column for column in range(self.log.num_bodies) if column not in self.without])

    @property
    def num(self) -> int:  # type: ignore[override]  # a constant that depends on the log
        """Number of bodies."""
        return len(self.columns)

    @property
    def shape(self) -> tuple[str, ...]:  # type: ignore[override]
        """Their shapes."""
        return tuple(self.log.shapes[column] for column in self.columns)

    @property
    def radius(self) -> tuple[float, ...]:  # type: ignore[override]
        """Their radii, metres."""
        return tuple(self.log.radius[self.columns].tolist())

    @property
    def is_fixed(self) -> bool:  # type: ignore[override]
        """Whether they go their way whatever is in it."""
        return not self.reactive

    @cached_property
    def _lengths(self) -> np.ndarray:
        """The lengths [T + 1, num] float64 of the ways walked up to each row, metres on the floor."""
        steps = np.diff(self.log.position[:, self.columns].astype(np.float64), axis=0)
        walked = np.cumsum(np.hypot(steps[..., 0], steps[..., 2]), axis=0)
        return np.concatenate([np.zeros((1, self.num)), walked])

    @cached_property
    def _strides(self) -> np.ndarray:
        """The longest walks [num] float64 of a step, metres."""
        return HURRY * np.diff(self._lengths, axis=0).max(axis=0)

    @cached_property
    def _found(self) -> WeakKeyDictionary[NavMesh, np.ndarray]:
        """What ``_polygons`` has found, by navmesh; it depends on the log alone, so that batches may share it."""
        return WeakKeyDictionary()

    def _polygons(self, navmesh: NavMesh) -> np.ndarray:
        """Return the polygons [T + 1, num] int32 under the logged places, which are searched once per navmesh.

        Raises:
            ValueError: A place is not on the navmesh.
        """
        if navmesh not in self._found:
            places = self.log.position[:, self.columns].reshape(-1, 3)
            if not navmesh.is_navigable(places).all():
                raise ValueError(
                    f"{self.log!r} leaves the navmesh: make the batch with the navmesh_settings of the log"
                )
            _, under = navmesh.snap_with_polygon(places)
            self._found[navmesh] = under.reshape(-1, self.num)
        return self._found[navmesh]

    def __getstate__(self) -> dict[str, object]:
        """Return the fields, for other processes; weak references cannot be sent there."""
        return {name: getattr(self, name) for name in ("log", "reactive", "without")}

    def begin(self, motion: BodyMotion) -> None:
        """Put the bodies where the log begins.

        Raises:
            ValueError: A world is in another scene, or the log's places are not on its navmesh.
        """
        for slot in np.unique(motion.slots[motion.worlds]).tolist():
            found = motion.scene_name(slot)
            if found != self.log.scene:
                raise ValueError(
                    f"bodies logged in scene {self.log.scene!r} cannot walk in {found!r}: make the batch with the "
                    "scene of the log alone"
                )
            self._polygons(motion.navmesh(slot))
        self._put(motion, np.zeros(len(motion.worlds), np.int64))
        motion.state.num_goals[motion.worlds, motion.columns] = 0

    def move(self, motion: BodyMotion) -> None:
        """Put the bodies where the log has them next, or let them walk there."""
        following = np.minimum(motion.state.num_steps[motion.worlds] + 1, self.log.num_steps)
        if self.reactive:
            self._walk(motion, following)
        else:
            self._put(motion, following)

    def _put(self, motion: BodyMotion, rows: np.ndarray) -> None:
        """Put the bodies of K worlds where rows [K] of the log have them."""
        state = motion.state
        slots = motion.slots[motion.worlds]
        position = self.log.position[rows][:, self.columns]
        polygon = np.empty(position.shape[:2], np.int32)
        for slot in np.unique(slots).tolist():
            here = slots == slot
            polygon[here] = self._polygons(motion.navmesh(slot))[rows[here]]
        state.polygon[motion.worlds, motion.columns] = polygon
        state.position[motion.worlds, motion.columns] = position
        state.heading[motion.worlds, motion.columns] = self.log.heading[rows][:, self.columns]
        state.present[motion.worlds, motion.columns] = self.log.present[rows][:, self.columns]

    def _walk(self, motion: BodyMotion, following: np.ndarray) -> None:
        """Let the bodies of K worlds walk on, at most to rows [K] of the log.

        ``num_goals`` of a body counts the rows of the log that it has passed.
        """
        state = motion.state
        first, last, _ = motion.columns.indices(state.present.shape[1])
        world, body = (grid.ravel() for grid in np.meshgrid(motion.worlds, np.arange(last - first), indexing="ij"))
        column = body + first
        latest = np.repeat(following, last - first)
        position = state.position[world, column]
        passed = self._passed(position, state.num_goals[world, column], body, latest)
        state.num_goals[world, column] = passed
        target = self._target(passed, body, latest)
        source = self.columns[body]
        way = self.log.position[target, source].astype(np.float64) - position
        length = np.minimum(np.hypot(way[:, 0], way[:, 2]), self._strides[body])
        turn = np.arctan2(-way[:, 0], -way[:, 2]) - state.heading[world, column]
        motion.walk(world, column, turn, length)
        state.heading[world, column] = self.log.heading[target, source]
        state.present[world, column] = self.log.present[target, source]

    def _passed(self, position: np.ndarray, passed: np.ndarray, body: np.ndarray, latest: np.ndarray) -> np.ndarray:
        """Return the row [n] of the log, from ``passed`` [n] on, that each body is nearest to.

        Of rows at the same place, in which the body stood still, it is the last.
        """
        ahead = passed[:, None] + np.arange(WINDOW, -1, -1)
        rows = np.minimum(ahead, latest[:, None] - 1)
        way = self.log.position[rows, self.columns[body][:, None]] - position[:, None]
        return rows[np.arange(len(rows)), np.hypot(way[..., 0], way[..., 2]).argmin(axis=1)]

    def _target(self, passed: np.ndarray, body: np.ndarray, latest: np.ndarray) -> np.ndarray:
        """Return the last row [n] of the log, up to ``latest`` [n], within two strides of ``passed`` [n].

        A body may stand beyond the row that it has passed: one stride from there would not be a whole one for it.
        """
        reach = self._lengths[passed, body] + 2 * self._strides[body]
        target = np.empty_like(latest)
        for one in range(self.num):
            mine = body == one
            target[mine] = np.searchsorted(self._lengths[:, one], reach[mine] + 1e-9, side="right") - 1
        return np.clip(target, passed, latest)
