"""The order in which scenes take turns, and how fast: whether loading keeps the requested pace."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np

from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.numbers import is_count

SETTLE_STEPS = 16  # between a scene's arrival and its first agent, in which renderers upload it to their device
NICENESS = (19, 10, 5, 0)  # by urgency: from idle time only to the priority of any other program
BEHIND = 4.0  # rotation counts as behind if a change takes more than this many times the requested steps
WINDOW = 30.0  # seconds per assessment
SILENCE = 600.0  # seconds between two warnings
_REMEMBERED = 16  # changes over which the mean is reported


class ScenePlan:
    """The order in which scenes take turns.

    Lane k of K starts with item k of a permutation of all scenes, and the lanes take the following items in turn,
    cyclically. The scene of a lane therefore depends only on the seed, the lane and the number of its changes.

    Args:
        num_scenes: Number of scenes in the list.
        num_active: K, the number of lanes. If every scene has a lane, they keep the order of the list.
    """

    def __init__(self, num_scenes: int, num_active: int) -> None:
        self._num_scenes = num_scenes
        self._num_active = num_active
        self.restart(0)

    def restart(self, seed: int) -> None:
        """Restart with a seed."""
        self.seed = seed
        self.position = 0
        self._order = np.arange(self._num_scenes)
        if self._num_scenes > self._num_active:
            self._order = np.random.default_rng([seed, self._num_scenes]).permutation(self._num_scenes)
        self._place = np.empty(self._num_scenes, np.int64)
        self._place[self._order] = np.arange(self._num_scenes)

    def next(self, without: Container[int]) -> int | None:
        """Return the next scene that is not in ``without``, or None; ``taken`` moves past it."""
        for ahead in range(self._num_scenes):
            scene = int(self._order[(self.position + ahead) % self._num_scenes])
            if scene not in without:
                return scene
        return None

    def taken(self, scene: int) -> None:
        """Move past a scene that ``next`` returned."""
        self.position += int(self._place[scene] - self.position) % self._num_scenes + 1

    def get_state(self) -> dict[str, Any]:
        """Return plain values for ``set_state``."""
        return {"seed": self.seed, "position": self.position}

    def check_state(self, state: Any) -> None:
        """Raise ValueError unless ``set_state`` can resume from a state."""
        fits = isinstance(state, Mapping) and is_count(state.get("seed"), 2**64 - 1) and is_count(state.get("position"))
        if not fits:
            raise ValueError(f"library state: plan {str(state)[:200]}: pass the result of get_state()")

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from a state that ``get_state`` returned."""
        self.restart(state["seed"])
        self.position = state["position"]


class RotationPace:
    """A monitor of the steps between changes of scene, which sets the loader's priority and warns if it is too slow.

    Loading starts at a low priority. A late scene raises the priority of the next one; a scene that is ready in less
    than half of the time lowers it again.

    Args:
        rotate_every: Requested number of steps from one change to the next.
        clock: Returns seconds; replaced in tests.
    """

    def __init__(self, rotate_every: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.requested_steps = max(rotate_every, SETTLE_STEPS + 1)  # a change takes at least this many steps
        self._clock = clock
        self._urgency = 1
        self._warned: float | None = None
        self.restart()

    def restart(self) -> None:
        """Restart the counts but keep the current priority."""
        self._intervals: deque[int] = deque(maxlen=_REMEMBERED)
        self._since_change = 0
        self._since_request = 0
        self._late = 0  # steps in which a slot was free and a change was due, but the scene was not loaded
        self._begin_window()

    @property
    def niceness(self) -> int:
        """The niceness at which the next scene should be loaded, 19 to 0."""
        return NICENESS[self._urgency]

    @property
    def steps_per_change(self) -> float | None:
        """Mean steps between the last changes, with the present interval if it is longer; None before the first."""
        if not self._intervals:
            return None
        mean = sum(self._intervals) / len(self._intervals)
        return max(mean, self._since_change) if self._since_change > BEHIND * self.requested_steps else mean

    @property
    def behind(self) -> bool:
        """Whether changes take more than four times the requested steps because of the loader."""
        return self._late > (BEHIND - 1) * self.requested_steps or self._slow_window

    def request(self) -> None:
        """Record that a scene is requested now."""
        self._since_request = 0

    def step(self) -> None:
        """Count a step."""
        self._since_change += 1
        self._since_request += 1
        self._window_steps += 1
        if self._clock() > self._window_end:
            self._assess()

    def late(self) -> None:
        """Record that a change is due in this step and a slot is free, but the scene is not loaded."""
        self._late += 1
        self._window_late += 1
        if self._late > self.requested_steps:
            self._urgency = len(NICENESS) - 1

    def loaded(self) -> None:
        """Record that the requested scene is loaded, in time or late."""
        if self._late > 0:
            self._urgency = min(self._urgency + 1, len(NICENESS) - 1)
        elif self._since_request < self.requested_steps // 2:
            self._urgency = max(self._urgency - 1, 0)
        self._late = 0

    def changed(self) -> None:
        """Record that a slot has changed its scene."""
        self._intervals.append(self._since_change)
        self._window_changes += 1
        self._since_change = 0

    def _begin_window(self) -> None:
        self._window_end = self._clock() + WINDOW
        self._window_steps = 0
        self._window_late = 0
        self._window_changes = 0
        self._slow_window = False

    def _assess(self) -> None:
        """Compare the recent changes with the requested pace, and warn if rotation is behind."""
        achieved = self._window_steps / max(self._window_changes, 1)
        slow = achieved > BEHIND * self.requested_steps and self._window_late > self._window_steps / 2
        self._begin_window()
        self._slow_window = slow
        now = self._clock()
        if slow and (self._warned is None or now > self._warned + SILENCE):
            self._warned = now
            warn_user(
                f"scenes change every {achieved:,.0f} steps or less often, not every {self.requested_steps:,} as "
                "requested: loading cannot keep up; fill the cache first (gym-batchnav scene prepare), increase "
                "rotate_every, leave more of the processor free, or set deterministic_rotation=True, which waits for "
                "scenes"
            )
