"""SceneSlots: scenes side by side, and what others have made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.progress import late_progress

Preparer = Callable[[Scene], Any]
Content = tuple[int, Scene | None, dict[int, Any]]  # index in the list of scenes, scene, what was made of it by key
NOTHING: Content = (-1, None, {})


class SceneSlots:
    """A fixed number of slots, each with one scene or none.

    What others need of a scene (a ray tree, a navmesh, episodes) they have made by *preparers*: plain callables that
    run on every scene that is held, without anybody here knowing what they make. Equal preparers share their results.
    What these take is known where they say so: ``nbytes`` of main memory, ``device_nbytes`` on a graphics device.
    A renderer that mirrors the slots on its device compares ``generation`` before it draws.

    Args:
        num_slots: How many.
        max_scene_bytes: How much they may take of main memory, and again of graphics devices; None for any amount.

    Attributes:
        source_index: [num_slots] int32, number of the scene in the list of all, -1 for none and for scenes by hand.
        generation: Grows by one whenever the scene in any slot changes.
    """

    def __init__(self, num_slots: int, max_scene_bytes: int | None = None) -> None:
        self._max_scene_bytes = max_scene_bytes
        self.source_index = np.full(num_slots, -1, np.int32)
        self.generation = 0
        self._scenes: list[Scene | None] = [None] * num_slots
        self._prepared: list[dict[int, Any]] = [{} for _ in range(num_slots)]
        self._preparers: dict[int, Preparer] = {}
        self._num_askers: dict[int, int] = {}  # by key
        self._next_key = 0

    @property
    def num_slots(self) -> int:
        """The number of slots, empty ones included."""
        return len(self.source_index)

    @property
    def num_held(self) -> int:
        """The number of slots that hold a scene."""
        return sum(scene is not None for scene in self._scenes)

    def scene(self, slot: int) -> Scene:
        """The scene in a slot.

        Raises:
            ValueError: The slot is empty.
        """
        scene = self._scenes[slot]
        if scene is None:
            raise ValueError(f"slot {slot} of the scene library is empty: put a scene into it")
        return scene

    def name(self, slot: int) -> str:
        """The name of the scene in a slot."""
        return self.scene(slot).name

    def prepared(self, slot: int, key: int) -> Any:
        """What the preparer of ``key`` made of the scene in ``slot``, None if the slot is empty."""
        return self._prepared[slot].get(key)

    def _prepare(self, preparer: Preparer) -> tuple[int, dict[int, ValueError]]:
        """Have a preparer run on every scene that is held; returns the key of its results and, by slot, its refusals.

        The scenes that it refuses stay, with nothing made of them: it is for the caller to empty their slots or to
        remove the preparer.
        """
        for key, known in self._preparers.items():
            if known == preparer:
                self._num_askers[key] += 1
                return key, {}
        made: dict[int, Any] = {}
        refusals: dict[int, ValueError] = {}
        with late_progress("Preparing scenes", self.num_held) as done:
            for slot, scene in enumerate(self._scenes):
                if scene is not None:
                    try:
                        made[slot] = preparer(scene)
                    except ValueError as error:
                        refusals[slot] = error
                    done()
        key, self._next_key = self._next_key, self._next_key + 1
        self._preparers[key], self._num_askers[key] = preparer, 1
        for slot, result in made.items():
            self._prepared[slot][key] = result
        return key, refusals

    def remove_preparer(self, key: int) -> None:
        """Forget a preparer and what it made once all who asked for it have said so; unknown keys are ignored."""
        if key not in self._preparers:
            return
        self._num_askers[key] -= 1
        if self._num_askers[key] == 0:
            del self._preparers[key], self._num_askers[key]
            for prepared in self._prepared:
                prepared.pop(key, None)

    @property
    def nbytes(self) -> int:
        """Bytes of main memory that the scenes hold and what was made of them."""
        return int(self._memory[0])

    @property
    def device_nbytes(self) -> int:
        """Bytes that the scenes take on graphics devices; room that a renderer keeps for others does not count."""
        return int(self._memory[1])

    @property
    def _memory(self) -> np.ndarray:
        """[2] int64: bytes of main memory and of the graphics devices that all slots take."""
        return sum(map(self._memory_of, self._contents), np.zeros(2, np.int64))

    def _memory_of(self, content: Content) -> np.ndarray:
        """[2] int64: bytes of main memory and of the graphics devices; results that do not tell theirs do not count.

        Everyone who asked for a result sends it to a device of their own.
        """
        _, scene, made = content
        main = 0 if scene is None else scene.nbytes
        main += sum(getattr(result, "nbytes", 0) for result in made.values())
        device = sum(getattr(result, "device_nbytes", 0) * self._num_askers[key] for key, result in made.items())
        return np.array([main, device], np.int64)

    def _fits(self, memory: np.ndarray) -> bool:
        """Whether so many bytes [2], of main memory and of graphics devices, may be taken."""
        return self._max_scene_bytes is None or bool((memory <= self._max_scene_bytes).all())

    def _too_much(self, memory: np.ndarray) -> str:
        """What is wrong with so many bytes [2], which do not fit."""
        assert self._max_scene_bytes is not None
        where = ("main memory", "the graphics device")
        taken = " and ".join(
            f"{size:,} bytes of {what}"
            for size, what in zip(memory.tolist(), where, strict=True)
            if size > self._max_scene_bytes
        )
        return f"{counted(self.num_held)} at hand would take {taken}, more than max_scene_bytes={self._max_scene_bytes}"

    def _install(self, slot: int, content: Content) -> None:
        """Place a scene and what was made of it in a slot."""
        self.source_index[slot], self._scenes[slot], self._prepared[slot] = content
        self.generation += 1

    @property
    def _contents(self) -> list[Content]:
        """What every slot holds."""
        return list(zip(self.source_index.tolist(), self._scenes, self._prepared, strict=True))

    def _differs(self, slot: int, content: Content) -> bool:
        """Whether a slot holds another scene, or the same one from another place in the list."""
        index, scene, _ = content
        return bool(self.source_index[slot] != index) or self._scenes[slot] is not scene

    def _hold(self, contents: Sequence[Content]) -> None:
        """Have the first slots hold these and the others nothing."""
        for slot in range(self.num_slots):
            content = contents[slot] if slot < len(contents) else NOTHING
            if self._differs(slot, content):
                self._install(slot, content)


def counted(scenes: int) -> str:
    """So many scenes, in words."""
    return "1 scene" if scenes == 1 else f"{scenes} scenes"
