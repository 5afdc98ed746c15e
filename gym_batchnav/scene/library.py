"""SceneLibrary: the scenes that are resident, one a slot, each held once however many agents use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gym_batchnav.scene.mesh import Scene


@dataclass(frozen=True, slots=True)
class SceneSource:
    """A scene that can be loaded: its name and how."""

    name: str
    load: Callable[[], Scene]


class SceneLibrary:
    """K resident scenes in slots 0 to K - 1.

    What others need of a scene (a ray tree, a navmesh, episodes) they have made by *preparers*: plain callables that
    the library runs on every scene it holds, without knowing what they make. A renderer that mirrors the slots on its
    device compares ``generation`` before it draws. Slots change between calls of the thread that steps, never during
    one, and a slot may be empty.

    Args:
        sources: The scenes, at least one; all of them become resident, in this order.
        num_spare_slots: Further slots, empty at first.

    Attributes:
        generation: Grows by one whenever the scene in any slot changes.
    """

    def __init__(self, sources: Sequence[SceneSource], num_spare_slots: int = 0) -> None:
        if not sources:
            raise ValueError("a SceneLibrary needs at least one scene")
        self.names = tuple(source.name for source in sources)
        self.generation = 0
        self._scenes: list[Scene | None] = [source.load() for source in sources]
        self._scenes += [None] * num_spare_slots
        self._preparers: dict[int, Callable[[Scene], Any]] = {}
        self._prepared: list[dict[int, Any]] = [{} for _ in self._scenes]
        self._next_key = 0

    @classmethod
    def from_scenes(cls, scenes: Sequence[Scene]) -> SceneLibrary:
        """A library of scenes that are in memory already."""

        def source(scene: Scene) -> SceneSource:
            return SceneSource(scene.name, lambda: scene)

        return cls([source(scene) for scene in scenes])

    @property
    def num_slots(self) -> int:
        """The number of slots, K and the spare ones."""
        return len(self._scenes)

    def scene(self, slot: int) -> Scene:
        """The scene in a slot.

        Raises:
            ValueError: The slot is empty.
        """
        scene = self._scenes[slot]
        if scene is None:
            raise ValueError(f"slot {slot} of the scene library is empty")
        return scene

    def put(self, slot: int, scene: Scene | None) -> None:
        """Place another scene in a slot, or None to empty it; what was made of the old one is let go.

        Raises:
            ValueError: A preparer refuses the scene; the slot then keeps what it held.
        """
        made = {} if scene is None else {key: preparer(scene) for key, preparer in self._preparers.items()}
        self._scenes[slot], self._prepared[slot] = scene, made
        self.generation += 1

    def add_preparer(self, preparer: Callable[[Scene], Any]) -> int:
        """Have ``preparer(scene)`` run on every resident scene, now and later; returns the key of its results."""
        # All or nothing: a preparer may refuse a scene.
        made = [None if scene is None else preparer(scene) for scene in self._scenes]
        key, self._next_key = self._next_key, self._next_key + 1
        self._preparers[key] = preparer
        for prepared, result in zip(self._prepared, made, strict=True):
            if result is not None:
                prepared[key] = result
        return key

    def remove_preparer(self, key: int) -> None:
        """Forget a preparer and what it made; unknown keys are ignored."""
        self._preparers.pop(key, None)
        for prepared in self._prepared:
            prepared.pop(key, None)

    def prepared(self, slot: int, key: int) -> Any:
        """What the preparer of ``key`` made of the scene in ``slot``, None if the slot is empty."""
        return self._prepared[slot].get(key)
