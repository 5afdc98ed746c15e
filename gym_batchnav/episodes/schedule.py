"""EpisodeSchedule: chooses the episode that each environment runs next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gym_batchnav.episodes.draws import keyed_uniform
from gym_batchnav.system.numbers import check_choice, is_count

EPISODE_ORDERS = ("random", "once")


class EpisodeSchedule:
    """A chooser of (slot, episode) pairs; episodes are numbered consecutively across slots.

    In order ``"random"`` environment i visits the slots in turn, beginning with i mod K, and draws one of the slot's
    episodes with replacement, keyed by its own seed and count. In order ``"once"`` the environments share one queue of
    all episodes, which takes the slots in turn, until none is left; or of chosen episodes, in the order given.

    If scenes rotate, ``follow`` must be called after every change, lanes (see ``gym_batchnav.library``) replace slots,
    and only ``"random"`` is possible.

    Args:
        num_episodes: [K], the number of episodes of every slot.
        order: ``"random"`` or ``"once"``.
        rotates: Whether the scenes of slots change; an episode's number is then its row in its scene.

    Attributes:
        first: [K] int64, the number of the first episode of every slot: 0 if scenes rotate.

    Raises:
        ValueError: The order is unknown, or it is ``"once"`` and scenes rotate.
    """

    def __init__(self, num_episodes: Sequence[int], order: str = "random", *, rotates: bool = False) -> None:
        self._rotates = rotates
        self._chosen: np.ndarray | None = None
        self.follow(num_episodes, np.arange(len(num_episodes)))
        self.restart(order)

    def follow(self, num_episodes: Sequence[int], active: np.ndarray) -> None:
        """Set the numbers of episodes of all slots, and the slots [K] int in which episodes begin."""
        self._sizes = np.asarray(num_episodes, np.int64)
        self._active = active
        self._offsets = np.concatenate([[0], np.cumsum(self._sizes)])
        self.first = np.zeros_like(self._sizes) if self._rotates else self._offsets[:-1]
        self._all: np.ndarray | None = None
        if self._chosen is not None and self._chosen.size and self._chosen.max() >= self.total:
            self._chosen = None  # the scenes they were chosen for have left

    @property
    def total(self) -> int:
        """The total number of episodes of all slots."""
        return int(self._offsets[-1])

    def rewind(self) -> None:
        """Restart in the present order."""
        self._next = 0

    def restart(self, order: str, chosen: np.ndarray | None = None) -> None:
        """Restart in the given order.

        Args:
            order: ``"random"`` or ``"once"``.
            chosen: [E] int64, the episodes to run in order ``"once"``; None for all.

        Raises:
            ValueError: The order is unknown, or it is ``"once"`` and scenes rotate.
        """
        check_choice("order", order, EPISODE_ORDERS)
        if order == "once" and self._rotates:
            raise ValueError(
                "order='once' requires all scenes to be resident: pass fewer scenes, or set resident= of Scenes "
                "to their number"
            )
        self.order = order
        self._chosen = chosen
        self._next = 0

    def index(self, slot: np.ndarray, episode: np.ndarray) -> np.ndarray:
        """Return the numbers of episodes [N] in slots [N], counted across all slots unless scenes rotate."""
        return self.first[slot] + episode

    def locate(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots and rows of the episodes with the given numbers [N]: the inverse of ``index``."""
        slot = np.searchsorted(self._offsets, index, side="right") - 1
        return slot, index - self._offsets[slot]

    def slot(self, env: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Return the slots [M] that environments [M] enter after ``count`` [M] episodes, in order ``"random"``."""
        return self._active[(env + count) % len(self._active)]

    def draw(self, env: np.ndarray, seed: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the next episodes of some environments.

        Args:
            env: [M] int, indices of the environments, ascending.
            seed: [M] uint64, their seeds.
            count: [M] int, number of episodes that each has begun before.

        Returns:
            The slots [M] int, rows in the slots' episodes [M] int64, and whether an episode was left [M] bool; if not,
            slot and row are 0.
        """
        if self.order == "once":
            queue = self._every_episode() if self._chosen is None else self._chosen
            left = queue[self._next : self._next + len(env)]
            self._next += len(left)
            slot, row = self.locate(np.concatenate([left, np.zeros(len(env) - len(left), np.int64)]))
            return slot, row, np.arange(len(env)) < len(left)
        slot = self.slot(env, count)
        row = (keyed_uniform(seed, count, 0) * self._sizes[slot]).astype(np.int64)
        return slot, row, np.ones(len(env), bool)

    def _every_episode(self) -> np.ndarray:
        """Return the numbers of all episodes: row 0 of every slot, then row 1, ..."""
        if self._all is None:
            rows = np.concatenate([np.arange(size) for size in self._sizes])
            slots = np.repeat(np.arange(len(self._sizes)), self._sizes)
            self._all = np.lexsort((slots, rows))
        return self._all

    def get_state(self) -> dict[str, Any]:
        """Return the state that ``set_state`` restores."""
        chosen = {} if self._chosen is None else {"chosen": self._chosen.copy()}
        return {"order": self.order, "next": self._next, **chosen}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Resume from a state that ``get_state`` returned.

        Raises:
            ValueError: It is damaged or has episodes that do not exist; nothing changes then.
        """
        order = state.get("order") if isinstance(state, Mapping) else None
        position = state["next"] if order is not None and "next" in state else None
        if not isinstance(order, str) or not is_count(position):
            raise ValueError(f"schedule={str(state)[:200]}: pass what get_state() returned")
        chosen = state.get("chosen")
        if chosen is not None:
            chosen = np.array(chosen) if isinstance(chosen, (np.ndarray, list, tuple)) else np.array("")
            whole = chosen.ndim == 1 and (chosen.dtype.kind == "i" or not chosen.size)
            if not whole or (chosen.size and (chosen.min() < 0 or chosen.max() >= self.total)):
                raise ValueError(
                    f"the state has episodes that do not exist, there are 0 to {self.total - 1}: pass the state of an "
                    "environment with the same episodes="
                )
            chosen = chosen.astype(np.int64)
        self.restart(order, chosen)
        self._next = position
