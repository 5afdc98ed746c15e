"""SceneLibrary: K active scenes that N agents share, and the others of a long list, which take their turns."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gym_batchnav.library.left_out import LeftOut
from gym_batchnav.library.library_state import contents_of, name_of
from gym_batchnav.library.loader import BackgroundLoader, Loaded, load
from gym_batchnav.library.plan import ScenePlan
from gym_batchnav.library.slots import NOTHING, Content, Preparer, SceneSlots, counted
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.progress import late_progress

SETTLE_STEPS = 16  # between a scene's arrival and its first agent: renderers send it to their device meanwhile


@dataclass(frozen=True, slots=True)
class SceneSource:
    """A scene that can be loaded: its name, how, and a JSON-able recipe for another process (None: in memory only)."""

    name: str
    load: Callable[[], Scene]
    recipe: Mapping[str, object] | None = None


class SceneLibrary(SceneSlots):
    """Scenes in slots, each held once however many agents use it.

    New episodes begin in the *active* slots, one for each of K lanes. If more scenes are listed than there are lanes,
    they rotate: a background thread loads the next one; it is placed in a spare slot, takes over its lane a few steps
    later, and the slot that had the lane is emptied when the last agent has left it. Slots change in ``advance``,
    ``restart``, ``set_state`` and ``put`` only, which whoever steps calls between two steps, and a slot may be empty.

    A scene that cannot be loaded or prepared is reported once, in a warning, and left out.

    Several users may share a library, each with agents of its own. The one that has made most steps drives the
    rotation; what would take a scene away from another user's agents is refused.

    Args:
        sources: The scenes, at least one.
        num_active: K; a lane for every scene if not given.
        num_spare_slots: Further slots, empty at first; a quarter of K where scenes rotate if not given.
        rotate_every: Steps from one change of scene to the next, at least.
        deterministic: Wait for the loader, so that scenes change at the same steps in every run.
        max_scene_bytes: How much the scenes and what is made of them may take of main memory, and again of a graphics
            device; a scene that does not fit is passed over.
        warm: Called with a source in the background before it is loaded, to have another process do what it can.
        rest: Called when the last user has left, to let such a process end.

    Attributes:
        names: The names of all scenes, as listed.
        active: [K] int32, the slot of every lane; another array after every change.
    """

    def __init__(
        self,
        sources: Sequence[SceneSource],
        num_active: int | None = None,
        *,
        num_spare_slots: int | None = None,
        rotate_every: int = 250,
        deterministic: bool = False,
        max_scene_bytes: int | None = None,
        warm: Callable[[SceneSource], None] | None = None,
        rest: Callable[[], None] | None = None,
    ) -> None:
        if not sources:
            raise ValueError("a SceneLibrary needs at least one scene")
        self.names = tuple(source.name for source in sources)
        self._num_lanes = min(num_active or len(sources), len(sources))
        self.rotates = self._num_lanes < len(sources)
        if num_spare_slots is None:
            num_spare_slots = -(-self._num_lanes // 4) if self.rotates else 0
        super().__init__(self._num_lanes + num_spare_slots, max_scene_bytes)
        self.active = np.arange(self._num_lanes, dtype=np.int32)
        self._sources, self._warm, self._rest = tuple(sources), warm, rest
        self._rotate_every, self._deterministic = rotate_every, deterministic
        self._plan = ScenePlan(len(sources), self._num_lanes)
        self._loader = BackgroundLoader()
        self._users: dict[int, np.ndarray] = {}  # by key, [num_slots] bool: where each user's agents are
        self._user_steps: dict[int, int] = {}
        self._left_out = LeftOut(self.names)
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

    def put(self, slot: int, scene: Scene | None) -> None:
        """Place a scene in a slot by hand, or None to empty it; what was made of the old one is let go.

        Raises:
            ValueError: Agents are in the slot, or a preparer refuses the scene; the slot then keeps what it held.
        """
        if any(slots[slot] for slots in self._users.values()):
            raise ValueError(f"slot {slot} cannot take another scene: agents are in it; use a spare slot")
        made = {} if scene is None else {key: preparer(scene) for key, preparer in self._preparers.items()}
        self._install(slot, (-1, scene, made))

    def add_preparer(self, preparer: Preparer) -> int:
        """Have ``preparer(scene)`` run on every scene that is held, now and later; returns the key of its results.

        As long as nobody has joined, scenes that it refuses are left out, and so are those for which there is no room
        any more beside what it makes.

        Raises:
            ValueError: Others may be in such a scene, or it is the last one; then nothing has changed.
        """
        reasons, plan = dict(self._left_out.reasons), self._plan.get_state()
        key, refusals = self._prepare(preparer)
        try:
            self._adapt(refusals)
        except Exception:
            self.remove_preparer(key)
            self._left_out.reasons = reasons
            self._plan.set_state(plan)
            raise
        return key

    def stats(self) -> dict[str, Any]:
        """What the library holds and has done.

        Returns:
            ``scenes``: how many are listed; ``resident``: names of those that have a lane or were put in by hand;
            ``arriving``: of those that will take over a lane; ``leaving``: of those that have lost theirs and that
            agents are still in; ``swaps``: changes of scene so far; ``passed_over``: turns of scenes that did not
            fit; ``refused``: reasons by name; ``bytes`` and ``device_bytes``: see ``nbytes`` and ``device_nbytes``;
            ``seconds_waited``: for the loader while stepping.
        """
        held: dict[str, list[str]] = {"resident": [], "arriving": [], "leaving": []}
        for slot, scene in enumerate(self._scenes):
            if scene is not None:
                held[self._part_of(slot)].append(scene.name)
        return {
            "scenes": len(self.names),
            **{part: tuple(names) for part, names in held.items()},
            "swaps": self._num_swaps,
            "passed_over": self._left_out.num_passed_over,
            "refused": self._left_out.by_name(),
            "bytes": self.nbytes,
            "device_bytes": self.device_nbytes,
            "seconds_waited": self._seconds_waited,
        }

    def _part_of(self, slot: int) -> str:
        """What the scene in a slot is there for."""
        if self._arriving is not None and slot == self._arriving[0]:
            return "arriving"
        return "resident" if slot in self.active or self.source_index[slot] < 0 else "leaving"

    # Users and their steps

    def join(self) -> int:
        """Register a user whose agents occupy slots; returns its key."""
        key, self._next_key = self._next_key, self._next_key + 1
        self._users[key], self._user_steps[key] = np.zeros(self.num_slots, bool), self._step
        return key

    def leave(self, key: int) -> None:
        """Forget a user; unknown keys are ignored. The background thread ends with the last one.

        If it was ahead of the others, their steps go on from its last, so that the scenes keep changing.
        """
        if self._users.pop(key, None) is None:
            return
        del self._user_steps[key]
        if self._users:
            behind = self._step - max(self._user_steps.values())
            self._user_steps = {user: steps + behind for user, steps in self._user_steps.items()}
        else:
            self._loader.close()
            self._loader = BackgroundLoader()
            if self._rest is not None:
                self._rest()

    def occupy(self, key: int, slots: np.ndarray) -> None:
        """Say in which slots a user's agents are now, [N] int, so that these keep their scenes."""
        self._users[key][:] = False
        self._users[key][slots] = True

    def advance(self, key: int) -> None:
        """Let time pass by one step of a user, and scenes change if it is their turn.

        What the user drew before must have been read: slots may be emptied.
        """
        self._user_steps[key] += 1
        if not self.rotates or self._user_steps[key] <= self._step:
            return
        self._step = self._user_steps[key]
        self._empty_left_slots()
        if self._arriving is not None:
            self._take_over()
        elif self._step >= self._next_swap:
            self._take_in()
        self._order_next()

    def restart(self, key: int, seed: int) -> None:
        """Begin the plan of a seed; the user begins new episodes for all of its agents.

        Nothing happens where scenes do not rotate, or where others share them: their scenes stay.
        """
        if not self.rotates or len(self._users) > 1 or (self._plan.seed == seed and self._step == 0):
            return
        self._plan.restart(seed)
        self._step = self._user_steps[key] = 0
        self._next_swap, self._num_swaps = self._rotate_every, 0
        self._fill_lanes()

    # The state

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here: plain values."""
        return {
            "scenes": len(self.names),
            "names": [name_of(content, self.names) for content in self._contents],
            "source_index": self.source_index.tolist(),
            "active": self.active.tolist(),
            "plan": self._plan.get_state(),
            "arriving": self._arriving,
            "step": self._step,
            "next_swap": self._next_swap,
            "num_swaps": self._num_swaps,
        }

    def set_state(self, key: int, state: dict[str, Any]) -> None:
        """Have a user go on from a state that a library of the same scenes gave; scenes that are not held are loaded.

        Raises:
            ValueError: The state is of other scenes, one of them cannot be loaded any more, or agents of another user
                are where a scene would change; then nothing has changed.
        """
        contents = contents_of(state, self.names, self._contents, self._load)
        for slot, content in enumerate(contents):
            others = (slots[slot] for user, slots in self._users.items() if user != key)
            if self._differs(slot, content) and any(others):
                raise ValueError(f"scene {self.name(slot)!r} cannot change: agents of another environment are in it")
        self._hold(contents)
        self._loader.forget()
        self.active = np.array(state["active"], np.int32)
        self._plan.set_state(state["plan"])
        self._arriving = None if state["arriving"] is None else tuple(state["arriving"])
        self._step = self._user_steps[key] = int(state["step"])
        self._next_swap, self._num_swaps = int(state["next_swap"]), int(state["num_swaps"])

    # Changes

    def _load(self, index: int) -> Loaded:
        """A scene of the list, and what all preparers make of it, here and now."""
        return load(index, self._sources[index].load, self._preparers)

    def _fill_lanes(self) -> None:
        """Give every lane the scene with which the plan begins; what is held already is not loaded again.

        Raises:
            ValueError: No scene can be loaded, or none fits.
        """
        held = {content[0]: content for content in self._contents if content[0] >= 0}
        self._loader.forget()
        chosen: dict[int, Content] = {}
        too_large: set[int] = set()
        taken = np.zeros(2, np.int64)
        with late_progress("Loading scenes", self._num_lanes) as done:
            while len(chosen) < self._num_lanes and len(too_large) <= self._num_lanes:
                index = self._plan.next({*chosen, *too_large, *self._left_out.reasons})
                if index is None:
                    break
                if index not in held:
                    loaded = self._load(index)
                    if loaded.error is not None:
                        self._left_out.refuse(index, loaded.error)
                        continue
                    held[index] = index, loaded.scene, loaded.made
                wanted = taken + self._memory_of(held[index])
                if self._fits(wanted):
                    chosen[index], taken = held[index], wanted
                    self._plan.taken(index)
                    done()
                else:
                    too_large.add(index)
        if not chosen and not too_large:
            raise self._left_out.none_left()
        if not chosen:
            raise ValueError(f"no scene fits into max_scene_bytes={self._max_scene_bytes}: allow more")
        if too_large:
            warnings.warn(
                f"only {counted(len(chosen))} at a time: more do not fit into max_scene_bytes={self._max_scene_bytes}",
                stacklevel=2,
            )
        self._arriving = None
        self.active = np.arange(len(chosen), dtype=np.int32)
        self._hold(list(chosen.values()))

    def _adapt(self, refusals: Mapping[int, ValueError]) -> None:
        """Choose other scenes where a new preparer refuses some, by slot, or what it makes takes too much room.

        Raises:
            ValueError: Somebody may be in there, or no scene is left.
        """
        for slot, error in refusals.items():
            if self._users or self.source_index[slot] < 0:
                raise error
            self._left_out.refuse(int(self.source_index[slot]), error)
        fits = self._fits(self._memory)
        if self._users and not fits:
            raise ValueError(f"{self._too_much(self._memory)}: allow more, or keep fewer scenes resident")
        if refusals or not fits:
            self._plan.restart(self._plan.seed)
            self._fill_lanes()

    def _empty_left_slots(self) -> None:
        """Empty the slots that have lost their lane and their last agent."""
        used = np.any(list(self._users.values()), axis=0)
        used[self.active] = True
        if self._arriving is not None:
            used[self._arriving[0]] = True
        for slot in np.flatnonzero(~used & (self.source_index >= 0)).tolist():
            self._install(slot, NOTHING)

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
            if loaded.error is not None:
                self._left_out.refuse(loaded.index, loaded.error)
                self._order_next()
                continue
            content = loaded.index, loaded.scene, loaded.made
            self._plan.taken(loaded.index)
            self._next_swap = self._step + self._rotate_every
            if self._fits(self._memory + self._memory_of(content)):
                self._install(free[0], content)
                self._arriving = free[0], self._step + SETTLE_STEPS
            else:
                room = f"max_scene_bytes={self._max_scene_bytes} beside the {counted(self.num_held)} at hand"
                self._left_out.pass_over(loaded.index, room)
            return

    def _complete(self, loaded: Loaded) -> Loaded:
        """What was loaded, with what preparers make that came meanwhile and without what left."""
        if loaded.scene is None:
            return loaded
        scene, made = loaded.scene, loaded.made
        missing = {key: preparer for key, preparer in self._preparers.items() if key not in made}
        completed = load(loaded.index, lambda: scene, missing)
        completed.made.update({key: result for key, result in made.items() if key in self._preparers})
        return completed

    def _order_next(self) -> None:
        """Have the background thread load the scene whose turn is next, unless it is at it."""
        if not self._loader.busy:
            held = set(self.source_index[self.active].tolist())
            if self._arriving is not None:
                held.add(int(self.source_index[self._arriving[0]]))
            index = self._plan.next(held | set(self._left_out.reasons))
            if index is not None:
                job = partial(_warm_and_load, self._sources[index], self._warm)
                self._loader.request(index, job, self._preparers)


def _warm_and_load(source: SceneSource, warm: Callable[[SceneSource], None] | None) -> Scene:
    if warm is not None:
        warm(source)
    return source.load()
