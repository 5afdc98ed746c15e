"""The order in which scenes take turns: an endless cycle through the list, shuffled by a seed."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from gym_batchnav.system.numbers import is_count


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
