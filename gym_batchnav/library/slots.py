"""Slots: the scenes in memory and the data that preparers derived from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.wording import counted

Preparer = Callable[[Scene], Any]
Content = tuple[int, Scene | None, dict[int, Any]]  # index in the list of scenes, scene, preparers' results by key
NOTHING: Content = (-1, None, {})


class Slots:
    """A fixed number of slots, each with one scene or none.

    *Preparers* derive data from scenes (a ray tree, a navmesh, episodes): callables that run on every scene in a slot.
    This class does not know what they make. Equal preparers share their results. Results are counted as memory if they
    have an attribute ``nbytes`` (main memory) or ``device_nbytes`` (graphics device).

    Args:
        num_slots: Number of slots.
        max_scene_bytes: Limit of main memory, and again of the graphics device; None for no limit.

    Attributes:
        max_scene_bytes: The limit.
        source_index: [num_slots] int32, index of the scene in the list of all; -1 for none and for scenes that a caller
            has put there.
        generation: Counter that increases whenever the scene in any slot changes.
        preparers: The preparers by key.
    """

    def __init__(self, num_slots: int, max_scene_bytes: int | None = None) -> None:
        self.max_scene_bytes = max_scene_bytes
        self.source_index = np.full(num_slots, -1, np.int32)
        self.generation = 0
        self.preparers: dict[int, Preparer] = {}
        self._scenes: list[Scene | None] = [None] * num_slots
        self._prepared: list[dict[int, Any]] = [{} for _ in range(num_slots)]
        self._num_users: dict[int, int] = {}  # by key
        self._next_key = 0

    def __len__(self) -> int:
        """Return the number of slots, empty ones included."""
        return len(self.source_index)

    @property
    def num_held(self) -> int:
        """The number of slots that hold a scene."""
        return sum(scene is not None for scene in self._scenes)

    @property
    def scenes(self) -> tuple[Scene | None, ...]:
        """The scene in every slot."""
        return tuple(self._scenes)

    def scene(self, slot: int) -> Scene:
        """Return the scene in a slot.

        Raises:
            ValueError: If the slot is empty or does not exist.
        """
        if not 0 <= slot < len(self):
            raise ValueError(f"slot {slot}: the scene library has slots 0 to {len(self) - 1}")
        scene = self._scenes[slot]
        if scene is None:
            raise ValueError(f"slot {slot} of the scene library is empty: load a scene into it")
        return scene

    def prepared(self, slot: int, key: int) -> Any:
        """Return the result of the preparer ``key`` for the scene in ``slot``, or None if the slot is empty."""
        return self._prepared[slot].get(key)

    def prepare(self, preparers: Sequence[Preparer]) -> tuple[list[int], dict[int, ValueError]]:
        """Run preparers on every scene in a slot; return the keys of their results and the refusals by slot.

        Several preparers run beside each other, each in a thread of its own. Refused scenes stay in their slots without
        a result: the caller must empty the slots or remove the preparers.
        """
        new = [one for one in preparers if one not in self.preparers.values()]
        refusals: dict[int, ValueError] = {}
        total = self.num_held * len(new)
        with late_progress("Preparing scenes", total) as done, ThreadPoolExecutor(max(1, len(new) - 1)) as pool:

            def made_by(preparer: Preparer) -> dict[int, Any]:
                made: dict[int, Any] = {}
                for slot, scene in enumerate(self._scenes):
                    if scene is not None:
                        try:
                            made[slot] = preparer(scene)
                        except ValueError as error:
                            refusals.setdefault(slot, error)
                        done()
                return made

            others = [pool.submit(made_by, one) for one in new[1:]]
            results = [made_by(one) for one in new[:1]] + [one.result() for one in others]
        for preparer, made in zip(new, results, strict=True):
            self.preparers[self._next_key] = preparer
            self._num_users[self._next_key] = 0
            for slot, result in made.items():
                self._prepared[slot][self._next_key] = result
            self._next_key += 1
        keys = [next(key for key, known in self.preparers.items() if known == one) for one in preparers]
        for key in keys:
            self._num_users[key] += 1
        return keys, refusals

    def remove_preparer(self, key: int) -> None:
        """Remove a preparer and its results once everyone who added it has removed it; unknown keys are ignored."""
        if key not in self.preparers:
            return
        self._num_users[key] -= 1
        if self._num_users[key] == 0:
            del self.preparers[key]
            del self._num_users[key]
            for prepared in self._prepared:
                prepared.pop(key, None)

    @property
    def memory(self) -> np.ndarray:
        """The bytes of main memory and of the graphics device that all slots take, [2] int64."""
        return sum(map(self.memory_of, self.contents), np.zeros(2, np.int64))

    def memory_of(self, content: Content) -> np.ndarray:
        """Return the bytes of main memory and of the graphics device that a content takes, [2] int64.

        Device memory counts once per user of a preparer, because each has buffers of its own.
        """
        _, scene, made = content
        main = 0 if scene is None else scene.nbytes
        main += sum(getattr(result, "nbytes", 0) for result in made.values())
        device = sum(getattr(result, "device_nbytes", 0) * self._num_users[key] for key, result in made.items())
        return np.array([main, device], np.int64)

    def fits(self, memory: np.ndarray) -> bool:
        """Return whether an amount of memory [2], as in ``memory``, is within the limit."""
        return self.max_scene_bytes is None or bool((memory <= self.max_scene_bytes).all())

    def excess(self) -> str:
        """Return an error text that describes by how much the current scenes exceed the limit."""
        assert self.max_scene_bytes is not None
        where = ("main memory", "the graphics device")
        taken = " and ".join(
            f"{size:,} bytes of {place}"
            for size, place in zip(self.memory.tolist(), where, strict=True)
            if size > self.max_scene_bytes
        )
        return f"{counted(self.num_held, 'scene')} would take {taken}, more than max_scene_bytes={self.max_scene_bytes}"

    def install(self, slot: int, content: Content) -> None:
        """Place a scene and its derived data in a slot."""
        index, scene, made = content
        self.source_index[slot] = index
        self._scenes[slot] = scene
        self._prepared[slot] = made
        self.generation += 1

    @property
    def contents(self) -> list[Content]:
        """The content of every slot."""
        return list(zip(self.source_index.tolist(), self._scenes, self._prepared, strict=True))

    def differs(self, slot: int, content: Content) -> bool:
        """Return whether a slot holds another scene, or the same scene from another place in the list."""
        index, scene, _ = content
        return bool(self.source_index[slot] != index) or self._scenes[slot] is not scene

    def hold(self, contents: Sequence[Content]) -> None:
        """Fill the first slots with these contents and empty the others; unchanged slots are left alone."""
        for slot in range(len(self)):
            content = contents[slot] if slot < len(contents) else NOTHING
            if self.differs(slot, content):
                self.install(slot, content)
