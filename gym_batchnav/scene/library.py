"""SceneLibrary: K active scenes that N agents share, and the others of a long list, which take their turns."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gym_batchnav.progress import late_progress
from gym_batchnav.scene.loader import BackgroundLoader, Loaded, load
from gym_batchnav.scene.mesh import Scene
from gym_batchnav.scene.rotation import ScenePlan

_NOTHING: tuple[int, None, dict[int, Any]] = (-1, None, {})
SETTLE_STEPS = 16  # between a scene's arrival and its first agent: renderers send it to their device meanwhile


@dataclass(frozen=True, slots=True)
class SceneSource:
    """A scene that can be loaded: its name, how, and a JSON-able recipe for another process (None: in memory only)."""

    name: str
    load: Callable[[], Scene]
    recipe: Mapping[str, object] | None = None


class SceneLibrary:
    """Scenes in slots, each held once however many agents use it.

    New episodes begin in the *active* slots, one for each of K lanes. If more scenes are listed than there are lanes,
    they rotate: a background thread loads the next one; it is placed in a spare slot, takes over its lane a few steps
    later, and the slot that had the lane is emptied when the last agent has left it. Slots change in ``advance``,
    ``restart`` and ``set_state`` only, which whoever steps calls between two steps, and a slot may be empty.

    What others need of a scene (a ray tree, a navmesh, episodes) they have made by *preparers*: plain callables that
    the library runs on every scene it holds, without knowing what they make. A renderer that mirrors the slots on its
    device compares ``generation`` before it draws.

    A scene that cannot be loaded or prepared is reported once, in a warning, and left out.

    Args:
        sources: The scenes, at least one.
        num_active: K; a lane for every scene if not given.
        num_spare_slots: Further slots, empty at first; a quarter of K where scenes rotate if not given.
        rotate_every: Steps from one change of scene to the next, at least.
        deterministic: Wait for the loader, so that scenes change at the same steps in every run.
        max_bytes: A scene with which the library would hold more than this is left out.
        warm: Called with a source in the background before it is loaded, to have another process do what it can.

    Attributes:
        names: The names of all scenes, as listed.
        active: [K] int32, the slot of every lane; another array after every change.
        source_index: [num_slots] int32, which of ``names`` a slot holds, -1 if it is empty.
        generation: Grows by one whenever the scene in any slot changes.
    """

    def __init__(
        self,
        sources: Sequence[SceneSource],
        num_active: int | None = None,
        *,
        num_spare_slots: int | None = None,
        rotate_every: int = 250,
        deterministic: bool = False,
        max_bytes: int | None = None,
        warm: Callable[[SceneSource], None] | None = None,
    ) -> None:
        if not sources:
            raise ValueError("a SceneLibrary needs at least one scene")
        self.names = tuple(source.name for source in sources)
        lanes = min(num_active or len(sources), len(sources))
        self.rotates = lanes < len(sources)
        if num_spare_slots is None:
            num_spare_slots = -(-lanes // 4) if self.rotates else 0
        self._num_lanes = lanes
        self.active = np.arange(lanes, dtype=np.int32)
        self.source_index = np.full(lanes + num_spare_slots, -1, np.int32)
        self.generation = 0
        self._sources = tuple(sources)
        self._scenes: list[Scene | None] = [None] * self.num_slots
        self._prepared: list[dict[int, Any]] = [{} for _ in range(self.num_slots)]
        self._preparers: dict[int, Callable[[Scene], Any]] = {}
        self._next_key = 0
        self._rotate_every, self._deterministic, self._max_bytes = rotate_every, deterministic, max_bytes
        self._warm = warm
        self._plan = ScenePlan(len(sources), lanes)
        self._loader = BackgroundLoader()
        self._users: dict[int, np.ndarray] = {}  # by key, [num_slots] bool: where each user's agents are
        self._refused: dict[int, str] = {}
        self._num_swaps, self._seconds_waited = 0, 0.0
        self._step, self._next_swap = 0, rotate_every
        self._arriving: tuple[int, int] | None = None  # a slot, and the step at which it takes over a lane
        self._fill_lanes()

    @classmethod
    def from_scenes(cls, scenes: Sequence[Scene], num_spare_slots: int = 0) -> SceneLibrary:
        """A library of scenes that are in memory already, all of them active."""

        def source(scene: Scene) -> SceneSource:
            return SceneSource(scene.name, lambda: scene)

        return cls([source(scene) for scene in scenes], num_spare_slots=num_spare_slots)

    # What the slots hold

    @property
    def num_slots(self) -> int:
        """The number of slots, K and the spare ones."""
        return len(self.source_index)

    def scene(self, slot: int) -> Scene:
        """The scene in a slot.

        Raises:
            ValueError: The slot is empty.
        """
        scene = self._scenes[slot]
        if scene is None:
            raise ValueError(f"slot {slot} of the scene library is empty")
        return scene

    def name(self, slot: int) -> str:
        """The name of the scene in a slot."""
        return self.scene(slot).name

    def prepared(self, slot: int, key: int) -> Any:
        """What the preparer of ``key`` made of the scene in ``slot``, None if the slot is empty."""
        return self._prepared[slot].get(key)

    def put(self, slot: int, scene: Scene | None) -> None:
        """Place a scene in a slot, or None to empty it; what was made of the old one is let go.

        Raises:
            ValueError: A preparer refuses the scene; the slot then keeps what it held.
        """
        made = {} if scene is None else {key: preparer(scene) for key, preparer in self._preparers.items()}
        self._install(slot, -1, scene, made)

    def add_preparer(self, preparer: Callable[[Scene], Any]) -> int:
        """Have ``preparer(scene)`` run on every scene that is held, now and later; returns the key of its results."""
        made: dict[int, Any] = {}
        with late_progress("Preparing scenes", self.num_held) as done:
            for slot, scene in enumerate(self._scenes):
                if scene is not None:
                    try:
                        made[slot] = preparer(scene)
                    except ValueError as error:
                        if self._users or self.source_index[slot] < 0:  # somebody may be in there
                            raise
                        self._refuse(Loaded(int(self.source_index[slot]), None, {}, error))
                    done()
        key, self._next_key = self._next_key, self._next_key + 1
        self._preparers[key] = preparer
        for slot, result in made.items():
            self._prepared[slot][key] = result
        if len(made) < self.num_held:
            self._plan.restart(self._plan.seed)
            self._fill_lanes()
        return key

    def remove_preparer(self, key: int) -> None:
        """Forget a preparer and what it made; unknown keys are ignored."""
        self._preparers.pop(key, None)
        for prepared in self._prepared:
            prepared.pop(key, None)

    @property
    def num_held(self) -> int:
        """The number of slots that hold a scene."""
        return sum(scene is not None for scene in self._scenes)

    @property
    def nbytes(self) -> int:
        """Bytes that the scenes hold and what was made of them, as far as that tells its ``nbytes``."""
        held = zip(self._scenes, self._prepared, strict=True)
        return sum(_bytes_of(scene, made) for scene, made in held if scene is not None)

    def stats(self) -> dict[str, Any]:
        """What the library holds and has done.

        Returns:
            ``scenes``: how many are listed; ``resident``: names of those held; ``swaps``: changes of scene so far;
            ``refused``: reasons by name; ``bytes``: see ``nbytes``; ``seconds_waited``: for the loader while stepping.
        """
        return {
            "scenes": len(self.names),
            "resident": tuple(scene.name for scene in self._scenes if scene is not None),
            "swaps": self._num_swaps,
            "refused": {self.names[index]: reason for index, reason in self._refused.items()},
            "bytes": self.nbytes,
            "seconds_waited": self._seconds_waited,
        }

    # Rotation

    def join(self) -> int:
        """Register a user whose agents occupy slots; returns its key. The first user's steps drive the rotation."""
        key, self._next_key = self._next_key, self._next_key + 1
        self._users[key] = np.zeros(self.num_slots, bool)
        return key

    def leave(self, key: int) -> None:
        """Forget a user; unknown keys are ignored. The background thread ends with the last one."""
        self._users.pop(key, None)
        if not self._users:
            self._loader.close()
            self._loader = BackgroundLoader()

    def occupy(self, key: int, slots: np.ndarray) -> None:
        """Say in which slots a user's agents are now, [N] int, so that these keep their scenes."""
        self._users[key][:] = False
        self._users[key][slots] = True

    def advance(self, key: int) -> None:
        """Let time pass by one step of a user, and scenes change if it is their turn.

        What the user drew before must have been read: slots may be emptied.
        """
        if not self.rotates or key != next(iter(self._users)):
            return
        self._step += 1
        self._empty_left_slots()
        if self._arriving is not None:
            self._take_over()
        elif self._step >= self._next_swap:
            self._take_in()
        self._order_next()

    def restart(self, seed: int) -> None:
        """Begin the plan of a seed; the user begins new episodes for all of its agents.

        Nothing happens if scenes do not rotate, or if several users share them.
        """
        if not self.rotates or len(self._users) > 1 or (self._plan.seed == seed and self._step == 0):
            return
        self._plan.restart(seed)
        self._step, self._next_swap, self._num_swaps, self._arriving = 0, self._rotate_every, 0, None
        self._fill_lanes()

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here: plain values."""
        return {
            "scenes": len(self.names),
            "names": [self.names[index] if index >= 0 else None for index in self.source_index.tolist()],
            "source_index": self.source_index.tolist(),
            "active": self.active.tolist(),
            "plan": self._plan.get_state(),
            "arriving": self._arriving,
            "step": self._step,
            "next_swap": self._next_swap,
            "num_swaps": self._num_swaps,
        }

    def check_state(self, state: dict[str, Any]) -> None:
        """Refuse a state of other scenes.

        Raises:
            ValueError: The state is not one of a library that lists the same scenes.
        """
        wanted = np.asarray(state.get("source_index", ()), np.int64)
        fits = wanted.shape == self.source_index.shape and (wanted < len(self.names)).all()
        names = [self.names[index] if index >= 0 else None for index in wanted.tolist()] if fits else None
        if names is None or names != list(state.get("names", ())) or state.get("scenes") != len(self.names):
            raise ValueError("the state is of other scenes: give the environment the same scenes=")

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that a library of the same scenes gave; scenes that are not held are loaded.

        Raises:
            ValueError: The state is of other scenes, or one of them cannot be loaded any more.
        """
        self.check_state(state)
        held = dict(zip(self.source_index.tolist(), zip(self._scenes, self._prepared, strict=True), strict=True))
        contents: list[tuple[int, Scene | None, dict[int, Any]]] = []
        for index in map(int, state["source_index"]):
            if index >= 0 and index not in held:
                loaded = load(index, self._sources[index].load, self._preparers)
                if loaded.error is not None:
                    raise loaded.error
                held[index] = loaded.scene, loaded.made
            contents.append((index, *held[index]) if index >= 0 else _NOTHING)
        self._hold(contents)
        self._loader.forget()
        self.active = np.array(state["active"], np.int32)
        self._plan.set_state(state["plan"])
        self._arriving = None if state["arriving"] is None else tuple(state["arriving"])
        self._step, self._next_swap = int(state["step"]), int(state["next_swap"])
        self._num_swaps = int(state["num_swaps"])

    def _fill_lanes(self) -> None:
        """Give every lane the scene with which the plan begins; what is held already is not loaded again.

        Raises:
            ValueError: No scene can be loaded, or they are too large together.
        """
        held = {
            int(index): (scene, made)
            for index, scene, made in zip(self.source_index, self._scenes, self._prepared, strict=True)
            if scene is not None
        }
        self._loader.forget()
        self._arriving = None
        chosen: dict[int, tuple[Scene, dict[int, Any]]] = {}
        with late_progress("Loading scenes", self._num_lanes) as done:
            while len(chosen) < self._num_lanes:
                index = self._plan.next({*chosen, *self._refused})
                if index is None:
                    break
                if index not in held:
                    loaded = load(index, self._sources[index].load, self._preparers)
                    if loaded.scene is None:
                        self._refuse(loaded)
                        continue
                    held[index] = (loaded.scene, loaded.made)
                chosen[index] = held[index]
                self._plan.taken(index)
                done()
        if self._max_bytes is not None and (size := sum(_bytes_of(*one) for one in chosen.values())) > self._max_bytes:
            raise ValueError(
                f"{len(chosen)} scenes hold {size} bytes, more than max_bytes={self._max_bytes}: keep fewer resident"
            )
        self.active = np.arange(len(chosen), dtype=np.int32)
        self._hold([(index, *chosen[index]) for index in chosen])

    def _hold(self, contents: Sequence[tuple[int, Scene | None, dict[int, Any]]]) -> None:
        """Have the first slots hold these and the others nothing."""
        for slot in range(self.num_slots):
            index, scene, made = contents[slot] if slot < len(contents) else _NOTHING
            if self._scenes[slot] is not scene:
                self._install(slot, index, scene, made)

    def _install(self, slot: int, index: int, scene: Scene | None, made: dict[int, Any]) -> None:
        self._scenes[slot], self._prepared[slot], self.source_index[slot] = scene, made, index
        self.generation += 1

    def _refuse(self, loaded: Loaded) -> None:
        """Leave a scene out from now on and say so.

        Raises:
            ValueError: It was the last.
        """
        self._refused[loaded.index] = str(loaded.error)
        if len(self._refused) == len(self.names):
            if len(self.names) == 1 and loaded.error is not None:
                raise loaded.error
            reasons = "; ".join(f"{self.names[index]}: {reason}" for index, reason in self._refused.items())
            raise ValueError(f"none of the {len(self.names)} scenes can be used: {reasons}")
        warnings.warn(f"scene {self.names[loaded.index]!r} is left out: {loaded.error}", stacklevel=2)

    def _empty_left_slots(self) -> None:
        """Empty the slots that have lost their lane and their last agent."""
        used = np.any(list(self._users.values()), axis=0)
        used[self.active] = True
        if self._arriving is not None:
            used[self._arriving[0]] = True
        for slot in np.flatnonzero(~used & (self.source_index >= 0)).tolist():
            self._install(slot, -1, None, {})

    def _take_over(self) -> None:
        """Give the slot that has arrived its lane, when it is time."""
        assert self._arriving is not None
        slot, due = self._arriving
        if self._step >= due:
            lane = self._num_swaps % len(self.active)
            self.active = np.where(np.arange(len(self.active)) == lane, slot, self.active).astype(np.int32)
            self._num_swaps += 1
            self._arriving = None

    def _take_in(self) -> None:
        """Place the scene that is loaded in a spare slot, if there is one of each."""
        free = [slot for slot, scene in enumerate(self._scenes) if scene is None]
        while free and self._loader.busy:
            clock = time.perf_counter()
            loaded = self._loader.take(wait=self._deterministic)
            self._seconds_waited += time.perf_counter() - clock
            if loaded is None:
                return
            loaded = self._complete(loaded)
            if loaded.scene is not None:
                self._plan.taken(loaded.index)
                self._install(free[0], loaded.index, loaded.scene, loaded.made)
                self._arriving = free[0], self._step + SETTLE_STEPS
                self._next_swap = self._step + self._rotate_every
                return
            self._refuse(loaded)
            self._order_next()

    def _complete(self, loaded: Loaded) -> Loaded:
        """What was loaded, with what preparers make that came meanwhile; refused if there is no room for it."""
        if loaded.scene is None:
            return loaded
        scene, made = loaded.scene, loaded.made
        missing = {key: preparer for key, preparer in self._preparers.items() if key not in made}
        completed = load(loaded.index, lambda: scene, missing)
        completed.made.update({key: result for key, result in made.items() if key in self._preparers})
        size = _bytes_of(scene, completed.made) if completed.error is None else 0
        if self._max_bytes is not None and self.nbytes + size > self._max_bytes:
            error = ValueError(f"with its {size} bytes the library would hold more than max_bytes={self._max_bytes}")
            return Loaded(loaded.index, None, {}, error)
        return completed

    def _order_next(self) -> None:
        """Have the background thread load the scene whose turn is next, unless it is at it."""
        if not self._loader.busy:
            held = set(self.source_index[self.active].tolist())
            if self._arriving is not None:
                held.add(int(self.source_index[self._arriving[0]]))
            index = self._plan.next(held | set(self._refused))
            if index is not None:
                job = partial(_warm_and_load, self._sources[index], self._warm)
                self._loader.request(index, job, self._preparers)


def _warm_and_load(source: SceneSource, warm: Callable[[SceneSource], None] | None) -> Scene:
    if warm is not None:
        warm(source)
    return source.load()


def _bytes_of(scene: Scene, made: Mapping[int, Any]) -> int:
    return scene.nbytes + sum(getattr(result, "nbytes", 0) for result in made.values())
