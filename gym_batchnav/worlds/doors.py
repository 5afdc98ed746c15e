"""Doors that swing open for agents and people who come near."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.geometry import wrap_angle
from gym_batchnav.system.numbers import check_between, is_number
from gym_batchnav.worlds.api import BODY_HEIGHT, HIDDEN, BodyMotion, MovingBodies

LEAF = 0.9  # metres, the width of a door
DISCS = 4  # bodies along a leaf; the first of them is drawn as the whole leaf
DISC_RADIUS = LEAF / DISCS / 2
OPEN = np.pi / 2  # radians
SAMPLES = 4  # angles of a swing in a step at which a door looks for others
MARGIN = 0.02  # metres that it leaves between its leaf and them


@dataclass(frozen=True, slots=True)
class Doors(MovingBodies):
    """Doors of 0.9 m, for scenes whose doorways are open.

    A door swings open, away from whoever approaches, stays open while anyone but another door is near, and closes
    afterwards. It stops before it touches anyone. Others cannot walk through its leaf, which is a row of discs. A world
    has at most 64 bodies, and a door counts as four.

    Attributes:
        hinges: Where the doors hang: points (x, y, z) on the floor, metres.
        headings_deg: Directions from the hinges along the closed leaves, as headings of agents: 0 is -z, left positive.
        reach: Metres from the middle of the doorway within which anyone opens a door.
        speed_deg: Degrees per second at which a leaf swings.

    Raises:
        ValueError: A value is out of its range, or the numbers of hinges and headings differ.
    """

    hinges: tuple[tuple[float, float, float], ...]
    headings_deg: tuple[float, ...]
    reach: float = 1.2
    speed_deg: float = 150.0

    is_fixed = True
    needs_start = False

    def __post_init__(self) -> None:
        hinges = self.hinges if isinstance(self.hinges, (tuple, list)) else ()
        are_points = all(np.shape(point) == (3,) and all(map(is_number, point)) for point in hinges)
        are_numbers = np.shape(self.headings_deg) == (len(hinges),) and all(map(is_number, self.headings_deg))
        if not hinges or not are_points or not are_numbers:
            raise ValueError(
                f"hinges={self.hinges} and headings_deg={self.headings_deg}: pass a tuple of points (x, y, z) and a "
                "tuple of as many numbers"
            )
        check_between(0.1, 10.0, reach=self.reach)
        check_between(1.0, 1000.0, speed_deg=self.speed_deg)

    @property
    def num(self) -> int:  # type: ignore[override]  # a constant that depends on a field
        """Number of discs."""
        return DISCS * len(self.hinges)

    @property
    def shape(self) -> tuple[str, ...]:  # type: ignore[override]
        """The shapes of the discs."""
        return ("door", *[HIDDEN] * (DISCS - 1)) * len(self.hinges)

    @property
    def radius(self) -> float:  # type: ignore[override]
        """The radius of the discs, metres."""
        return DISC_RADIUS

    def begin(self, motion: BodyMotion) -> None:
        """Close all doors.

        Raises:
            ValueError: A door stands where the navmesh has no floor.
        """
        worlds = motion.worlds
        slots = motion.slots[worlds]
        polygon = np.empty((len(worlds), len(self.hinges)), np.int32)
        for slot in np.unique(slots).tolist():
            middle = self._discs(np.zeros(len(self.hinges))).mean(axis=1)
            found, under = motion.navmesh(slot).snap_with_polygon(middle)
            is_near = np.linalg.norm(found - middle, axis=1) < LEAF
            if not is_near.all():
                door = int(is_near.argmin())
                raise ValueError(
                    f"hinges[{door}]={self.hinges[door]} with headings_deg[{door}]={self.headings_deg[door]} is not in "
                    f"a doorway of scene {motion.scene_name(slot)!r}: pass places next to floor that agents can walk on"
                )
            polygon[slots == slot] = under
        motion.state.polygon[worlds, motion.columns] = np.repeat(polygon, DISCS, axis=1)
        self._put(motion, np.zeros((len(worlds), len(self.hinges))))

    def move(self, motion: BodyMotion) -> None:
        """Swing the doors."""
        state = motion.state
        closed = np.radians(self.headings_deg)
        angle = wrap_angle(state.heading[motion.worlds, motion.columns][:, ::DISCS].astype(np.float64) - closed)
        others = np.delete(np.arange(state.present.shape[1]), motion.columns)
        way = self._ways(motion, np.flatnonzero(~motion.doors), self._discs(np.zeros(len(closed))).mean(axis=1)[None])
        distance = np.hypot(way[..., 0], way[..., 2])
        nearest = np.take_along_axis(way, distance.argmin(axis=2)[..., None, None], axis=2)[:, :, 0]
        nearest = np.where(np.isfinite(nearest), nearest, 0.0)  # nobody is on this floor
        is_left = nearest[..., 0] * np.cos(closed) - nearest[..., 2] * np.sin(closed) < 0
        sign = np.where(np.abs(angle) > 1e-6, np.sign(angle), np.where(is_left, -1.0, 1.0))
        wanted = np.where(distance.min(axis=2) < self.reach, sign * OPEN, 0.0)
        swing = np.radians(self.speed_deg) * motion.seconds
        following = angle + np.clip(wanted - angle, -swing, swing)
        swings = angle + (following - angle) * np.linspace(0, 1, SAMPLES + 1)[:, None, None]
        gaps = np.stack([self._gaps(motion, others, self._discs(one)) for one in swings])  # [S, K, D, DISCS, n]
        touches = (gaps[1:] < MARGIN) & (gaps[1:] < gaps[:-1])
        self._put(motion, np.where(touches.any(axis=(0, 3, 4)), angle, following))

    def _ways(self, motion: BodyMotion, others: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the ways [K, D, n, 3] from places [K, D, 3] to where others [n] were; inf for the absent."""
        state = motion.state
        position = state.previous[motion.worlds][:, others].astype(np.float64)
        way = position[:, None] - places[:, :, None]
        is_there = state.present[motion.worlds][:, others][:, None] & (np.abs(way[..., 1]) < BODY_HEIGHT)
        return np.where(is_there[..., None], way, np.inf)

    def _gaps(self, motion: BodyMotion, others: np.ndarray, discs: np.ndarray) -> np.ndarray:
        """Return the least distances [K, D, DISCS, n] between discs [K, D, DISCS, 3] and the ways of others in a step.

        They may be stopped anywhere on their ways, so a door keeps clear of all of these. It is inf for the absent.
        """
        state = motion.state
        start, end = (one[motion.worlds][:, None, None, others] for one in (state.previous, state.position))
        way = (end - start).astype(np.float64)[..., [0, 2]]
        to_disc = discs[..., None, [0, 2]] - start[..., [0, 2]]
        length = np.maximum((way * way).sum(axis=-1), 1e-12)
        share = np.clip((to_disc * way).sum(axis=-1) / length, 0, 1)
        gap = np.linalg.norm(to_disc - share[..., None] * way, axis=-1) - motion.radius[others] - DISC_RADIUS
        is_there = state.present[motion.worlds][:, None, None, others]
        is_there = is_there & (np.abs(discs[..., None, 1] - end[..., 1]) < BODY_HEIGHT)
        return np.where(is_there, gap, np.inf)

    def _discs(self, angle: np.ndarray) -> np.ndarray:
        """Return the places [..., D, DISCS, 3] float64 of the discs of doors that are open by angles [..., D]."""
        heading = np.radians(self.headings_deg) + angle
        along = np.stack([-np.sin(heading), np.zeros_like(heading), -np.cos(heading)], axis=-1)
        distance = DISC_RADIUS * (2 * np.arange(DISCS) + 1)
        return np.asarray(self.hinges)[:, None] + along[..., None, :] * distance[:, None]

    def _put(self, motion: BodyMotion, angle: np.ndarray) -> None:
        """Open the doors of K worlds by angles [K, D], radians."""
        worlds = motion.worlds
        heading = wrap_angle(np.radians(self.headings_deg) + angle)
        motion.state.position[worlds, motion.columns] = self._discs(angle).reshape(len(worlds), -1, 3)
        motion.state.heading[worlds, motion.columns] = np.repeat(heading, DISCS, axis=1)
