"""World: the scenes as agents walk in them, and where all agents of a batch are. It moves nobody."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gym_batchnav.episodes.sampling import EpisodeSet
from gym_batchnav.episodes.schedule import EpisodeSchedule
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.preparation.navigation import Navigation, NavigationPreparer
from gym_batchnav.state import Memory, agent_state, arrays_of, check_arrays, episode_state, write_arrays


class World:
    """Navmeshes and episodes of the scenes in a library's slots, and the state of the N agents in them.

    It is what the parts of a split batch share: each moves the agents of some rows, see BatchSimulator.

    Args:
        library: The scenes.
        num_agents: N.
        preparer: Makes navmesh, tables and episodes of each scene.
        episode_order: ``"random"`` or ``"once"``, see EpisodeSchedule.
        memory: What tasks, sensors and measures remember of the present episodes, arrays [N, ...] by name.

    Attributes:
        library: The scenes.
        agents: AgentState, written in place.
        episodes: EpisodeState, written in place.
        memory: Memory of these arrays, written in place.
        begun: [N] bool, who is in an episode of the present plan of scenes and episodes.
        schedule: Which episode comes next.
        navmeshes: The kernels' view of all slots.
    """

    def __init__(
        self,
        library: SceneLibrary,
        num_agents: int,
        preparer: NavigationPreparer,
        episode_order: str = "random",
        memory: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        self.library = library
        self.agents, self.episodes = agent_state(num_agents), episode_state(num_agents)
        self.memory = Memory(memory)
        self.episodes.seed[:] = np.random.SeedSequence().generate_state(num_agents, np.uint64)
        self.begun = np.zeros(num_agents, bool)
        self.schedule = EpisodeSchedule([0], episode_order, rotates=library.rotates)
        self.navmeshes = NavMeshAgents(library.num_slots)
        self._navigation: list[Navigation | None] = [None] * library.num_slots
        self._key = library.add_preparer(preparer)
        self._user = library.join()
        self._generation, self._active = -1, library.active
        self.follow()

    def at(self, slot: int) -> Navigation:
        """What was prepared of the scene in a slot.

        Raises:
            ValueError: The slot is empty, or there is no such slot.
        """
        navigation = self._navigation[slot] if 0 <= slot < len(self._navigation) else None
        if navigation is None:
            raise ValueError(f"slot {slot} holds no scene: library.active lists those that agents walk in")
        return navigation

    def navmesh(self, slot: int) -> NavMesh:
        """The navmesh of the scene in a slot."""
        return self.at(slot).navmesh

    def episode_set(self, slot: int) -> EpisodeSet:
        """The episodes of the scene in a slot."""
        return self.at(slot).episode_set

    def restart(self, order: str, seed: int | None = None) -> None:
        """Begin the queue of episodes anew in a mode and, of a seed, the plan of scenes."""
        self.schedule.restart(order)
        if seed is not None:
            self.library.restart(self._user, seed)

    def advance(self) -> None:
        """Let time pass by one step of all agents, and scenes change if it is their turn."""
        self.library.advance(self._user)
        self.follow()

    def follow(self) -> None:
        """Take over what has changed in the library's slots."""
        library = self.library
        if self._generation == library.generation and self._active is library.active:
            return
        for slot in range(library.num_slots):
            navigation = library.prepared(slot, self._key)
            if navigation is not self._navigation[slot]:
                self._navigation[slot] = navigation
                if navigation is None:
                    self.navmeshes.clear_slot(slot)
                else:
                    self.navmeshes.set_slot(slot, navigation.tables)
        self._generation, self._active = library.generation, library.active
        self.schedule.follow([0 if one is None else len(one.episode_set) for one in self._navigation], library.active)

    def occupy(self) -> None:
        """Tell the library in which slots the agents are now."""
        self.library.occupy(self._user, self.agents.slot)

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here: copied arrays and plain values."""
        return {
            **{part: {name: one.copy() for name, one in arrays.items()} for part, arrays in self._arrays.items()},
            "schedule": self.schedule.get_state(),
            "library": self.library.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that a world of the same arguments gave.

        Raises:
            ValueError: it is of another number of agents, or of other scenes, episodes or sensors; then nothing has
                changed.
        """
        missing = {*self._arrays, "schedule", "library"} - set(state)
        if missing:
            raise ValueError(f"state without {', '.join(sorted(missing))}: give what get_state() returned")
        for part, arrays in self._arrays.items():
            check_arrays(arrays, state[part])
        before = self.library.get_state()
        self.library.set_state(self._user, state["library"])
        self.follow()
        try:
            self._check_rows(state)
        except ValueError:
            self.library.set_state(self._user, before)
            self.follow()
            raise
        self.schedule.set_state(state["schedule"])
        for part, arrays in self._arrays.items():
            write_arrays(arrays, state[part])
        self.begun[:] = True
        self.occupy()

    def close(self) -> None:
        """Let the library forget what was prepared for this world; safe twice."""
        self.library.remove_preparer(self._key)
        self.library.leave(self._user)

    @property
    def _arrays(self) -> dict[str, Mapping[str, np.ndarray]]:
        """All arrays with a row an agent, by what they are of and by name."""
        return {"agents": arrays_of(self.agents), "episodes": arrays_of(self.episodes), "memory": self.memory}

    def _check_rows(self, state: dict[str, Any]) -> None:
        """Refuse a state whose rows point past what the scenes have.

        Raises:
            ValueError: They do.
        """
        slot = np.asarray(state["agents"]["slot"])
        if slot.min() < 0 or slot.max() >= self.library.num_slots:
            raise ValueError(f"state with scenes up to {slot.max()}: this library has {self.library.num_slots}")
        held = self._navigation
        limits = {
            "episode": [0 if one is None else len(one.episode_set) for one in held],
            "goal_index": [0 if one is None else len(one.episode_set.goals) for one in held],
            "polygon": [0 if one is None else one.navmesh.num_polygons for one in held],
        }
        for name, limit in limits.items():
            rows = np.asarray({**state["agents"], **state["episodes"]}[name])
            if (rows < 0).any() or (rows >= np.array(limit)[slot]).any():
                raise ValueError(f"state array {name!r} does not fit: it is of other scenes or episodes")
