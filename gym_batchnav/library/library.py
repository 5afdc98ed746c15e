"""SceneLibrary: the K active scenes that N agents share, and rotation through a longer list."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gym_batchnav.library.loader import (
    BackgroundLoader,
    PrepareAhead,
    Preparer,
    Refusals,
    complete,
    is_lasting,
    load_now,
)
from gym_batchnav.library.rotation import SETTLE_STEPS, RotationPace, ScenePlan
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.numbers import is_count
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.wording import counted

Content = tuple[int, Scene | None, dict[int, Any]]  # index in the list of scenes, scene, preparers' results by key
NOTHING: Content = (-1, None, {})


class SceneLibrary:
    """Scenes in slots, each stored once for any number of agents.

    New episodes begin in the *active* slots, one per lane. If more scenes are listed than there are lanes, they rotate:
    a background thread loads the next scene into a spare slot, which takes over a lane a few steps later, and the slot
    that had the lane is emptied when the last agent has left it. A slot may be empty. Slots change only in ``advance``,
    ``restart``, ``set_state`` and ``put``, which are called between steps.

    A scene that cannot be used is refused, with one warning. A scene that could not be loaded for a possibly temporary
    reason is retried at its next turn, or left out if scenes do not rotate.

    *Preparers* derive data from scenes (a ray tree, a navmesh, episodes): callables that run on every scene in a slot.
    Equal preparers share their results. Results count as memory if they have an attribute ``nbytes`` (main memory) or
    ``device_nbytes`` (graphics device).

    Several users may share a library, each with their own agents. The user with the most steps drives the rotation. A
    change that would remove a scene with another user's agents in it raises ValueError.

    Args:
        sources: The scenes, at least one.
        num_active: K, the number of lanes; by default one per scene.
        num_spare_slots: Additional slots, empty at first; by default a quarter of K if scenes rotate.
        rotate_every: Minimum number of steps between two changes of scene.
        deterministic: Wait for the loader, so that scenes change at the same steps in every run.
        max_bytes: Limit for scenes and the data derived from them, applied separately to main memory and to the
            graphics device. A scene that does not fit waits for its next turn if scenes rotate, and is left out
            otherwise.
        prepare_ahead: Fills the cache in other processes before scenes are loaded in this one.
        release_worker: Called when the last user has left, to end those processes.

    Attributes:
        names: The names of all scenes, as listed.
        rotates: Whether more scenes are listed than have a lane.
        deterministic: Whether scenes change at the same steps in every run.
        active: [K] int32, the slot of every lane; a new array after every change.
        source_index: [num_slots] int32, index of the scene in the list; -1 for none and for scenes placed by ``put``.
        generation: Counter that increases whenever the scene in any slot changes, for objects that mirror the slots.
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
        prepare_ahead: PrepareAhead | None = None,
        release_worker: Callable[[], None] | None = None,
    ) -> None:
        if not sources:
            raise ValueError("a SceneLibrary requires at least one scene")
        self.names = tuple(source.name for source in sources)
        self._num_lanes = min(num_active or len(sources), len(sources))
        self.rotates = self._num_lanes < len(sources)
        if num_spare_slots is None:
            num_spare_slots = -(-self._num_lanes // 4) if self.rotates else 0
        num_slots = self._num_lanes + num_spare_slots
        self._max_bytes = max_bytes
        self.source_index = np.full(num_slots, -1, np.int32)
        self.generation = 0
        self._scenes: list[Scene | None] = [None] * num_slots
        self._prepared: list[dict[int, Any]] = [{} for _ in range(num_slots)]
        self._preparers: dict[int, Preparer] = {}
        self._preparer_users: dict[int, int] = {}  # by key
        self._next_key = 0
        self.active = np.arange(self._num_lanes, dtype=np.int32)
        self._sources = tuple(sources)
        self._release_worker = release_worker
        self._rotate_every = rotate_every
        self.deterministic = deterministic
        self._plan = ScenePlan(len(sources), self._num_lanes)
        self._pace = RotationPace(rotate_every)
        self._prepare_ahead = prepare_ahead
        self._loader = BackgroundLoader(prepare_ahead)
        self._next_user = 0
        self._users: dict[int, np.ndarray] = {}  # by key, [num_slots] bool: slots with agents of each user
        self._user_steps: dict[int, int] = {}
        self._refusals = Refusals(self.names)
        self._num_swaps = 0
        self._seconds_waited = 0.0
        self._step = 0
        self._next_swap = rotate_every
        self._nothing_next: tuple[int, int] | None = None  # see _request_next
        self._arriving: tuple[int, int] | None = None  # a slot, and the step at which it takes over a lane
        self._fill_lanes()

    @classmethod
    def from_scenes(cls, scenes: Sequence[Scene]) -> SceneLibrary:
        """Make a library of scenes that are already in memory, all of them active."""
        return cls([SceneSource(scene.name, lambda scene=scene: scene) for scene in scenes])  # type: ignore[misc]

    # Slots

    @property
    def num_slots(self) -> int:
        """The number of slots, empty ones included."""
        return len(self.source_index)

    @property
    def num_held(self) -> int:
        """The number of slots that hold a scene."""
        return sum(scene is not None for scene in self._scenes)

    @property
    def num_users(self) -> int:
        """The number of users that share the scenes."""
        return len(self._users)

    @property
    def nbytes(self) -> int:
        """Bytes of main memory used by the scenes and the data derived from them."""
        return int(self._memory[0])

    @property
    def device_nbytes(self) -> int:
        """Bytes that the scenes use on graphics devices, without the space that a renderer reserves for others."""
        return int(self._memory[1])

    def scene(self, slot: int) -> Scene:
        """Return the scene in a slot.

        Raises:
            ValueError: If the slot is empty or does not exist.
        """
        self._check_slot(slot)
        scene = self._scenes[slot]
        if scene is None:
            raise ValueError(f"slot {slot} of the scene library is empty: load a scene into it")
        return scene

    def name(self, slot: int) -> str:
        """Return the name of the scene in a slot; see ``scene``."""
        return self.scene(slot).name

    def prepared(self, slot: int, key: int) -> Any:
        """Return the result of the preparer ``key`` for the scene in ``slot``, or None if the slot is empty."""
        return self._prepared[slot].get(key)

    def put(self, slot: int, scene: Scene | None) -> None:
        """Place a scene in a slot, or None to empty it; data derived from the old scene is released.

        Raises:
            ValueError: If agents are in the slot, or a preparer refuses the scene; the slot then keeps its scene.
        """
        self._check_slot(slot)
        if any(slots[slot] for slots in self._users.values()):
            raise ValueError(f"slot {slot} cannot hold another scene: agents are in it; use a spare slot")
        made = {} if scene is None else {key: preparer(scene) for key, preparer in self._preparers.items()}
        self._install(slot, (-1, scene, made))

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < self.num_slots:
            raise ValueError(f"slot {slot}: the scene library has slots 0 to {self.num_slots - 1}")

    def _install(self, slot: int, content: Content) -> None:
        self.source_index[slot], self._scenes[slot], self._prepared[slot] = content
        self.generation += 1

    @property
    def _contents(self) -> list[Content]:
        return list(zip(self.source_index.tolist(), self._scenes, self._prepared, strict=True))

    def _differs(self, slot: int, content: Content) -> bool:
        """Return whether a slot holds another scene, or the same scene from another place in the list."""
        index, scene, _ = content
        return bool(self.source_index[slot] != index) or self._scenes[slot] is not scene

    def _fill_slots(self, contents: Sequence[Content]) -> None:
        """Fill the first slots with these contents and empty the others; unchanged slots are left alone."""
        for slot in range(self.num_slots):
            content = contents[slot] if slot < len(contents) else NOTHING
            if self._differs(slot, content):
                self._install(slot, content)

    # Memory

    @property
    def _memory(self) -> np.ndarray:
        """The bytes of main memory and of the graphics device that all slots take, [2] int64."""
        return sum(map(self._memory_of, self._contents), np.zeros(2, np.int64))

    def _memory_of(self, content: Content) -> np.ndarray:
        """Return the bytes of main memory and of the graphics device that a content takes, [2] int64.

        Device memory counts once per user of a preparer, because each has its own buffers.
        """
        _, scene, made = content
        main = 0 if scene is None else scene.nbytes
        main += sum(getattr(result, "nbytes", 0) for result in made.values())
        device = sum(getattr(result, "device_nbytes", 0) * self._preparer_users[key] for key, result in made.items())
        return np.array([main, device], np.int64)

    def _fits(self, memory: np.ndarray) -> bool:
        """Return whether an amount of memory [2], as in ``_memory``, is within the limit."""
        return self._max_bytes is None or bool((memory <= self._max_bytes).all())

    def _excess(self) -> str:
        """Return an error text that describes by how much the current scenes exceed the limit."""
        assert self._max_bytes is not None
        sizes = zip(self._memory.tolist(), ("main memory", "the graphics device"), strict=True)
        taken = " and ".join(f"{size:,} bytes of {place}" for size, place in sizes if size > self._max_bytes)
        return f"{counted(self.num_held, 'scene')} would take {taken}, more than max_bytes={self._max_bytes}"

    # Preparers

    def add_preparers(self, preparers: Sequence[Preparer]) -> list[int]:
        """Run ``preparer(scene)`` on every scene in a slot, now and later; return the keys of the results.

        Several run concurrently in threads, without parallel kernels. Until the first user joins, scenes are left out
        that one of them refuses or that do not fit together with the results.

        Raises:
            ValueError: If other users' agents may be in such a scene, or it is the last one; nothing changes then.
        """
        reasons = dict(self._refusals.reasons)
        plan = self._plan.get_state()
        refusals = self._prepare([one for one in preparers if one not in self._preparers.values()])
        keys = [next(key for key, known in self._preparers.items() if known == one) for one in preparers]
        for key in keys:
            self._preparer_users[key] += 1
        try:
            self._adapt(refusals)
        except Exception:
            for key in keys:
                self.remove_preparer(key)
            self._refusals.reasons = reasons
            self._plan.set_state(plan)
            raise
        return keys

    def _prepare(self, preparers: Sequence[Preparer]) -> dict[int, ValueError]:
        """Run new preparers on every scene in a slot, each in a thread; return the refusals by slot.

        Refused scenes stay in their slots without a result: the caller must empty the slots or remove the preparers.
        """
        refusals: dict[int, ValueError] = {}
        total = self.num_held * len(preparers)
        with late_progress("Preparing scenes", total) as done, ThreadPoolExecutor(max(1, len(preparers) - 1)) as pool:

            def results_of(preparer: Preparer) -> dict[int, Any]:
                made: dict[int, Any] = {}
                for slot, scene in enumerate(self._scenes):
                    if scene is not None:
                        try:
                            made[slot] = preparer(scene)
                        except ValueError as error:
                            refusals.setdefault(slot, error)
                        done()
                return made

            others = [pool.submit(results_of, one) for one in preparers[1:]]
            results = [results_of(one) for one in preparers[:1]] + [one.result() for one in others]
        for preparer, made in zip(preparers, results, strict=True):
            self._preparers[self._next_key] = preparer
            self._preparer_users[self._next_key] = 0
            for slot, result in made.items():
                self._prepared[slot][self._next_key] = result
            self._next_key += 1
        return refusals

    def remove_preparer(self, key: int) -> None:
        """Remove a preparer and its results once everyone who added it has removed it; unknown keys are ignored."""
        if key not in self._preparers:
            return
        self._preparer_users[key] -= 1
        if self._preparer_users[key] == 0:
            del self._preparers[key]
            del self._preparer_users[key]
            for prepared in self._prepared:
                prepared.pop(key, None)

    def _adapt(self, refusals: Mapping[int, ValueError]) -> None:
        """Replace scenes that a preparer refuses or that no longer fit; ValueError if agents may be in one of them."""
        for slot, error in refusals.items():
            if self._users or self.source_index[slot] < 0:
                raise error
            self._refusals.refuse(int(self.source_index[slot]), error)
        fits = self._fits(self._memory)
        if self._users and not fits:
            raise ValueError(f"{self._excess()}: pass a larger max_bytes=, or keep fewer scenes resident")
        if refusals or not fits:
            self._plan.restart(self._plan.seed)
            self._fill_lanes()

    def stats(self) -> dict[str, Any]:
        """Return the current state of scenes, rotation and memory.

        Returns:
            ``scenes``: number listed; ``resident``, ``arriving``, ``leaving``: names of those with a lane or placed by
            ``put``, of those that will take over a lane, and of those that have lost theirs and still have agents;
            ``swaps``: changes of scene; ``steps_per_change_requested`` and ``steps_per_change``: the mean of the last
            changes, None before the first; ``behind``: whether loading makes changes take more than four times the
            steps asked for; ``passed_over``: turns of scenes that did not fit; ``refused``, ``failed``: reasons by
            name; ``bytes``, ``device_bytes``: see ``nbytes``; ``seconds_waited``: for the loader while stepping.
        """
        held: dict[str, list[str]] = {"resident": [], "arriving": [], "leaving": []}
        for slot, scene in enumerate(self._scenes):
            if scene is not None:
                held[self._role_of(slot)].append(scene.name)
        return {
            "scenes": len(self.names),
            **{role: tuple(names) for role, names in held.items()},
            "swaps": self._num_swaps,
            "steps_per_change_requested": self._pace.requested_steps if self.rotates else None,
            "steps_per_change": self._pace.steps_per_change,
            "behind": self._pace.behind,
            "passed_over": self._refusals.num_passed_over,
            "refused": self._refusals.refused,
            "failed": self._refusals.failed,
            "bytes": self.nbytes,
            "device_bytes": self.device_nbytes,
            "seconds_waited": self._seconds_waited,
        }

    def _role_of(self, slot: int) -> str:
        """Return whether the scene in a slot is ``resident``, ``arriving`` or ``leaving``."""
        if self._arriving is not None and slot == self._arriving[0]:
            return "arriving"
        return "resident" if slot in self.active or self.source_index[slot] < 0 else "leaving"

    # Users and their steps

    def join(self) -> int:
        """Register a user whose agents occupy slots; return its key."""
        key = self._next_user
        self._next_user += 1
        self._users[key] = np.zeros(self.num_slots, bool)
        self._user_steps[key] = self._step
        return key

    def leave(self, key: int) -> None:
        """Remove a user; unknown keys are ignored. When the last one leaves, loading is cancelled.

        If it was ahead of the others, their step count continues from its own, so that the scenes keep changing.
        """
        if self._users.pop(key, None) is None:
            return
        del self._user_steps[key]
        if self._users:
            behind = self._step - max(self._user_steps.values())
            self._user_steps = {user: steps + behind for user, steps in self._user_steps.items()}
        else:
            self._loader.cancel()
            if self._release_worker is not None:
                self._release_worker()

    def occupy(self, key: int, slots: np.ndarray) -> None:
        """Record the slots [N] int that a user's agents are in, so that these slots keep their scenes."""
        self._users[key][:] = False
        self._users[key][slots] = True

    def advance(self, key: int) -> None:
        """Advance by one step of a user; scenes change if a change is due.

        Images drawn before must have been read, since slots may be emptied.
        """
        self._user_steps[key] += 1
        if not self.rotates or self._user_steps[key] <= self._step:
            return
        self._step = self._user_steps[key]
        self._pace.step()
        self._empty_left_slots()
        if self._arriving is not None:
            self._switch_lane()
        elif self._step >= self._next_swap:
            self._receive_loaded()
        if self._loader.requested is None:
            self._request_next()

    def restart(self, key: int, seed: int) -> None:
        """Restart the rotation with a seed; the user must then begin new episodes for all of its agents.

        Does nothing if scenes do not rotate, or if other users share them.
        """
        if not self.rotates or len(self._users) > 1 or (self._plan.seed == seed and self._step == 0):
            return
        self._plan.restart(seed)
        self._pace.restart()
        self._step = 0
        self._user_steps[key] = 0
        self._next_swap = self._rotate_every
        self._num_swaps = 0
        self._fill_lanes()

    # State

    def get_state(self) -> dict[str, Any]:
        """Return plain values from which ``set_state`` resumes."""
        return {
            "scenes": len(self.names),
            "names": [self._listed_name(content) for content in self._contents],
            "source_index": self.source_index.tolist(),
            "active": self.active.tolist(),
            "plan": self._plan.get_state(),
            "refused": self._refusals.get_state(),
            "arriving": self._arriving,
            "step": self._step,
            "next_swap": self._next_swap,
            "num_swaps": self._num_swaps,
            "requested": self._loader.requested,
        }

    def set_state(self, key: int, state: Mapping[str, Any]) -> None:
        """Resume from the state of a library with the same scenes, loading those that are not in a slot.

        Raises:
            ValueError: If the state belongs to other scenes, one of them can no longer be loaded, or agents of another
                user are in a scene that would change; nothing changes then.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"library state is a {type(state).__name__}: pass the result of get_state()")
        missing = set(self.get_state()) - set(state) - {"scenes", "requested"}
        if missing:
            raise ValueError(f"library state without {', '.join(sorted(missing))}: pass the result of get_state()")
        self._check_lanes(state)
        self._plan.check_state(state["plan"])
        refused = self._refusals.check_state(state["refused"])
        requested = state.get("requested")
        if requested is not None and not is_count(requested, len(self.names) - 1):
            raise ValueError(f"library state: requested {str(requested)[:200]}: pass the result of get_state()")
        contents = self._contents_of(state)
        for slot, content in enumerate(contents):
            others = (slots[slot] for user, slots in self._users.items() if user != key)
            if self._differs(slot, content) and any(others):
                raise ValueError(
                    f"scene {self.name(slot)!r} cannot change: agents of another environment that shares the library "
                    "are in it: close that environment first"
                )
        self._fill_slots(contents)
        self._loader.cancel()
        self._refusals.reasons = refused
        self._pace.restart()
        self.active = np.array(state["active"], np.int32)
        self._plan.set_state(state["plan"])
        self._arriving = None if state["arriving"] is None else tuple(state["arriving"])
        self._step = int(state["step"])
        self._user_steps[key] = self._step
        self._next_swap = int(state["next_swap"])
        self._num_swaps = int(state["num_swaps"])
        if requested is not None:  # otherwise it would arrive a step later than in the run that was saved
            self._request(requested)

    def _check_lanes(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError unless a state's lanes have slots with scenes, and its counts are counts."""
        counts = {name: state[name] for name in ("step", "next_swap", "num_swaps")}
        names, active, arriving = (state[name] for name in ("names", "active", "arriving"))
        slots = [*active] if isinstance(active, (list, tuple)) else []
        lanes = len(slots)
        if arriving is not None:
            pair = [*arriving] if isinstance(arriving, (list, tuple)) and len(arriving) == 2 else [-1, -1]
            slots.append(pair[0])
            counts["arriving"] = pair[1]
        wrong = [name for name, value in counts.items() if not is_count(value)]
        if not 1 <= lanes <= self._num_lanes or not all(is_count(slot, self.num_slots - 1) for slot in slots):
            wrong.append("active")
        elif not isinstance(names, (list, tuple)) or len(names) != self.num_slots:
            wrong.append("names")
        elif len(set(slots)) < len(slots) or any(names[slot] is None for slot in slots):
            wrong.append("active")
        if wrong:
            raise ValueError(f"library state: {', '.join(wrong)} cannot be used: pass the result of get_state()")

    def _listed_name(self, content: Content) -> str | None:
        """Return the name of a slot's scene: as listed, or its own if it was placed by ``put``; None for no scene."""
        index, scene, _ = content
        if scene is None:
            return None
        return self.names[index] if index >= 0 else scene.name

    def _contents_of(self, state: Mapping[str, Any]) -> list[Content]:
        """Return the contents of all slots in a state, loading what is not in memory; ValueError if that fails."""
        indices, names = state["source_index"], state["names"]
        whole = isinstance(indices, (list, tuple)) and all(isinstance(index, int) for index in indices)
        if not whole or not len(indices) == len(names) == self.num_slots or state.get("scenes") != len(self.names):
            raise ValueError("the state belongs to other scenes: make the environment with the same scenes=")
        held = {content[0]: content for content in self._contents}
        contents: list[Content] = []
        for slot, (index, name) in enumerate(zip(indices, names, strict=True)):
            present = self._contents[slot]
            if name is None:
                contents.append(NOTHING)
            elif index < 0 and name == self._listed_name(present):
                contents.append(present)
            elif index < 0:
                raise ValueError(
                    f"the state has scene {name!r} in slot {slot}: first place it there with put(), as before"
                )
            elif index >= len(self.names) or name != self.names[index]:
                raise ValueError(f"the state has scene {name!r}: make the environment with the same scenes=")
            else:
                if index not in held:
                    (loaded,) = load_now({index: self._sources[index]}, self._preparers, self._prepare_ahead)
                    if loaded.error is not None:
                        problem = f"scene {name!r} of the state cannot be loaded: {loaded.error}"
                        raise ValueError(problem) from loaded.error
                    held[index] = index, loaded.scene, loaded.made
                    self._refusals.failures.pop(index, None)
                contents.append(held[index])
        return contents

    # Rotation

    def _fill_lanes(self) -> None:
        """Fill every lane with the first scenes of the plan, or as many as fit; the plan moves past them.

        Scenes that are in memory already are not loaded again.

        Raises:
            ValueError: If no scene can be loaded, or none fits.
        """
        self._loader.cancel()
        held = {content[0]: content for content in self._contents if content[0] >= 0}
        chosen: dict[int, Content] = {}
        too_large: set[int] = set()
        failed: set[int] = set()
        taken = np.zeros(2, np.int64)
        with late_progress("Loading scenes", self._num_lanes) as done:
            while len(chosen) < self._num_lanes and len(too_large) <= self._num_lanes:
                excluded = {*chosen, *too_large, *failed, *self._refusals.reasons}
                index = self._plan.next(excluded)
                if index is None:
                    break
                if index not in held:
                    upcoming = self._upcoming(excluded, self._num_lanes - len(chosen))
                    failed |= self._load_into(held, [one for one in upcoming if one not in held])
                    continue
                memory = taken + self._memory_of(held[index])
                if self._fits(memory):
                    chosen[index] = held[index]
                    taken = memory
                    self._plan.taken(index)
                    done()
                else:
                    too_large.add(index)
        limit = f"max_bytes={self._max_bytes}"
        if not chosen:
            raise ValueError(f"no scene fits into {limit}: increase it") if too_large else self._refusals.none_left()
        if len(chosen) == self._num_lanes:
            for index in too_large:
                self._refusals.pass_over(index, limit)
        elif too_large:
            what = "at a time" if self.rotates else f"of {len(self.names)}, always the same"
            warn_user(
                f"only {counted(len(chosen), 'scene')} {what}, since more do not fit into {limit}: pass a larger "
                "max_bytes=, or a smaller texture_size= or max_triangles="
            )
        self._arriving = None
        self.active = np.arange(len(chosen), dtype=np.int32)
        self._fill_slots(list(chosen.values()))

    def _upcoming(self, excluded: set[int], count: int) -> list[int]:
        """Return the next ``count`` scenes of the plan, which are loaded together.

        It is only one if there are no workers, or if a memory limit might exclude the next one.
        """
        upcoming: list[int] = []
        for _ in range(count if self._prepare_ahead is not None and self._max_bytes is None else 1):
            index = self._plan.next({*excluded, *upcoming})
            if index is not None:
                upcoming.append(index)
        return upcoming

    def _load_into(self, held: dict[int, Content], indices: Sequence[int]) -> set[int]:
        """Load scenes into ``held`` and return those that failed."""
        failed = set()
        sources = {index: self._sources[index] for index in indices}
        for loaded in load_now(sources, self._preparers, self._prepare_ahead):
            if loaded.error is None:
                held[loaded.index] = loaded.index, loaded.scene, loaded.made
                self._refusals.failures.pop(loaded.index, None)
            else:
                self._refusals.note(loaded.index, loaded.error, self.rotates)
                failed.add(loaded.index)
        return failed

    def _empty_left_slots(self) -> None:
        """Empty the slots that have lost their lane and their last agent."""
        used = np.any(list(self._users.values()), axis=0)
        used[self.active] = True
        if self._arriving is not None:
            used[self._arriving[0]] = True
        for slot in np.flatnonzero(~used & (self.source_index >= 0)).tolist():
            self._install(slot, NOTHING)

    def _switch_lane(self) -> None:
        assert self._arriving is not None
        slot, due = self._arriving
        if self._step >= due:
            lane = self._num_swaps % len(self.active)
            self.active = np.where(np.arange(len(self.active)) == lane, slot, self.active).astype(np.int32)
            self._num_swaps += 1
            self._arriving = None
            self._pace.changed()

    def _receive_loaded(self) -> None:
        """Take the scene that has been loaded, if a slot is spare, and place it there."""
        free = [slot for slot, scene in enumerate(self._scenes) if scene is None]
        while free and self._loader.requested is not None:
            clock = time.perf_counter()
            loaded = self._loader.take(wait=self.deterministic)
            self._seconds_waited += time.perf_counter() - clock
            if loaded is None:
                self._pace.late()
                return
            self._pace.loaded()
            loaded = complete(loaded, self._preparers)
            for message in loaded.warnings:
                warn_user(message)
            if loaded.error is not None:
                self._refusals.note(loaded.index, loaded.error, retried=True)
                if is_lasting(loaded.error):
                    self._request_next()
                    continue
            self._plan.taken(loaded.index)
            self._next_swap = self._step + self._rotate_every
            if loaded.error is None:
                self._place(free[0], (loaded.index, loaded.scene, loaded.made))
            return

    def _place(self, slot: int, content: Content) -> None:
        """Place a scene in a spare slot if it fits."""
        self._refusals.failures.pop(content[0], None)
        if self._fits(self._memory + self._memory_of(content)):
            self._install(slot, content)
            self._arriving = slot, self._step + SETTLE_STEPS
        else:
            others = f"in addition to the {counted(self.num_held, 'scene')} in memory"
            self._refusals.pass_over(content[0], f"max_bytes={self._max_bytes} {others}")

    def _request_next(self) -> None:
        situation = self.generation, self._num_swaps + len(self._refusals.reasons)
        if situation == self._nothing_next:
            return
        held = set(self.source_index[self.active].tolist())
        if self._arriving is not None:
            held.add(int(self.source_index[self._arriving[0]]))
        index = self._plan.next(held | set(self._refusals.reasons))
        if index is None:
            self._nothing_next = situation  # the list is searched again after a change
        else:
            self._request(index)

    def _request(self, index: int) -> None:
        self._pace.request()
        niceness = 0 if self.deterministic else self._pace.niceness
        self._loader.request(index, self._sources[index], self._preparers, niceness)
