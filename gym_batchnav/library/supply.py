"""Loading of scenes that are needed immediately: the first scene of every lane, and those of a saved state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gym_batchnav.library.loader import Loaded, Outcome, PrepareAhead, load, never
from gym_batchnav.library.plan import ScenePlan
from gym_batchnav.library.refusals import Refusals, is_lasting
from gym_batchnav.library.slots import NOTHING, Content, Slots
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.numbers import is_count
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.wording import counted


class SceneSupply:
    """A loader of listed scenes for which the caller waits; worker processes prepare them in parallel first.

    Args:
        sources: All scenes.
        slots: The scenes in memory, the preparers and the memory limit.
        refusals: Records the scenes that cannot be loaded.
        prepare_ahead: Fills the cache in other processes; None prepares everything in this one.
    """

    def __init__(
        self, sources: Sequence[SceneSource], slots: Slots, refusals: Refusals, prepare_ahead: PrepareAhead | None
    ) -> None:
        self._sources = sources
        self._slots = slots
        self._refusals = refusals
        self._prepare_ahead = prepare_ahead

    def listed_name(self, content: Content) -> str | None:
        """Return the name of a slot's scene: as listed, or its own if it was placed by ``put``; None for no scene."""
        index, scene, _ = content
        if scene is None:
            return None
        return self._sources[index].name if index >= 0 else scene.name

    def contents_of(self, state: Mapping[str, Any]) -> list[Content]:
        """Return the contents of all slots in a state, and load the scenes that are not in memory.

        Raises:
            ValueError: If they are not the scenes of this library, or one cannot be loaded.
        """
        indices = state["source_index"]
        names = state["names"]
        whole = isinstance(indices, (list, tuple)) and all(isinstance(index, int) for index in indices)
        if not whole or not len(indices) == len(names) == len(self._slots) or state.get("scenes") != len(self._sources):
            raise ValueError("the state belongs to other scenes: make the environment with the same scenes=")
        held = {content[0]: content for content in self._slots.contents}
        contents: list[Content] = []
        for slot, (index, name) in enumerate(zip(indices, names, strict=True)):
            present = self._slots.contents[slot]
            if name is None:
                contents.append(NOTHING)
            elif index < 0 and name == self.listed_name(present):
                contents.append(present)
            elif index < 0:
                raise ValueError(f"the state has scene {name!r} in slot {slot}, placed by put: put it there again")
            elif index >= len(self._sources) or name != self._sources[index].name:
                raise ValueError(f"the state has scene {name!r}: make the environment with the same scenes=")
            else:
                if index not in held:
                    held[index] = self._load_one(index)
                contents.append(held[index])
        return contents

    def check_index(self, index: object) -> int | None:
        """Return the index of a scene, or None; ValueError unless a state may have it."""
        if index is None or is_count(index, len(self._sources) - 1):
            return index
        raise ValueError(f"the state has requested scene {str(index)[:200]}: pass the result of get_state()")

    def _load_one(self, index: int) -> Content:
        """Load a scene of the list.

        Raises:
            ValueError: If it cannot be loaded.
        """
        (loaded,) = self._load([index])
        if loaded.error is not None:
            name = self._sources[index].name
            raise ValueError(f"scene {name!r} of the state cannot be loaded: {loaded.error}") from loaded.error
        return index, loaded.scene, loaded.made

    def first_scenes(self, plan: ScenePlan, num_lanes: int) -> list[Content]:
        """Return the first scenes of a plan, one per lane or as many as fit; the plan moves past them.

        Scenes that are in memory already are not loaded again.

        Raises:
            ValueError: If no scene can be loaded, or none fits.
        """
        held = {content[0]: content for content in self._slots.contents if content[0] >= 0}
        chosen: dict[int, Content] = {}
        too_large: set[int] = set()
        failed: set[int] = set()
        taken = np.zeros(2, np.int64)
        with late_progress("Loading scenes", num_lanes) as done:
            while len(chosen) < num_lanes and len(too_large) <= num_lanes:
                excluded = {*chosen, *too_large, *failed, *self._refusals.reasons}
                index = plan.next(excluded)
                if index is None:
                    break
                if index not in held:
                    indices = self._upcoming(plan, excluded, num_lanes - len(chosen), held)
                    failed |= self._load_into(held, indices)
                    continue
                memory = taken + self._slots.memory_of(held[index])
                if self._slots.fits(memory):
                    chosen[index] = held[index]
                    taken = memory
                    plan.taken(index)
                    done()
                else:
                    too_large.add(index)
        self._check_fill(len(chosen), len(too_large))
        return list(chosen.values())

    def _check_fill(self, num_chosen: int, num_too_large: int) -> None:
        """Raise ValueError if no scene was chosen, and warn if some did not fit."""
        limit = self._slots.max_scene_bytes
        if not num_chosen and not num_too_large:
            raise self._refusals.none_left()
        if not num_chosen:
            raise ValueError(f"no scene fits into max_scene_bytes={limit}: allow more")
        if num_too_large:
            warn_user(f"only {counted(num_chosen, 'scene')} at a time: more do not fit into max_scene_bytes={limit}")

    def _upcoming(self, plan: ScenePlan, excluded: set[int], count: int, held: dict[int, Content]) -> list[int]:
        """Return the scenes to load together: those of the next ``count`` of the plan that are not in memory.

        Only one is returned if there are no workers, or if a memory limit might exclude the next one.
        """
        together = count if self._prepare_ahead is not None and self._slots.max_scene_bytes is None else 1
        upcoming: list[int] = []
        for _ in range(together):
            index = plan.next({*excluded, *upcoming})
            if index is not None:
                upcoming.append(index)
        return [index for index in upcoming if index not in held]

    def _load_into(self, held: dict[int, Content], indices: Sequence[int]) -> set[int]:
        """Load scenes into ``held`` and return those that failed without being refused."""
        failed = set()
        for loaded in self._load(indices):
            if loaded.error is None:
                held[loaded.index] = loaded.index, loaded.scene, loaded.made
            elif is_lasting(loaded.error):
                self._refusals.refuse(loaded.index, loaded.error)
            else:
                self._refusals.fail(loaded.index, loaded.error)
                failed.add(loaded.index)
        return failed

    def _load(self, indices: Sequence[int]) -> list[Loaded]:
        sources = [self._sources[index] for index in indices]
        outcomes = [Outcome()] * len(sources)
        if self._prepare_ahead is not None:
            outcomes = self._prepare_ahead(sources, 0, never)
        results = []
        for index, source, outcome in zip(indices, sources, outcomes, strict=True):
            for sentence in outcome.warnings:
                warn_user(sentence)
            if outcome.error is not None:
                results.append(Loaded(index, None, {}, outcome.error))
            else:
                results.append(load(index, source.load, self._slots.preparers))
        return results
