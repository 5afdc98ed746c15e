"""BatchSimulator: N agents on the navmeshes of K scenes, and the episodes they are in. It draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gym_batchnav.navmesh.batch import STOP, NavMeshBatch
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.process import claim_process
from gym_batchnav.scene.library import SceneLibrary
from gym_batchnav.task.episode import EpisodeSet
from gym_batchnav.task.prepare import Navigation, NavigationPreparer
from gym_batchnav.task.schedule import EpisodeSchedule
from gym_batchnav.task.state import agent_state, check_arrays, copy_arrays, episode_state, write_arrays

NUM_ACTIONS = 4  # STOP, MOVE_FORWARD, TURN_LEFT, TURN_RIGHT: see navmesh/batch.py


class BatchSimulator:
    """Moves all agents at once and keeps their episodes.

    Args:
        library: The scenes.
        num_agents: N.
        preparer: Makes navmesh, tables and episodes of each scene.
        episodes: ``"random"`` or ``"once"``, see EpisodeSchedule.
        forward_step: Metres of MOVE_FORWARD.
        turn_angle: Radians of a turn.
        sliding: Slide along walls; False stops at them.

    Attributes:
        agents: AgentState, written in place.
        episodes: EpisodeState, written in place.
        schedule: Which episode comes next.
    """

    def __init__(
        self,
        library: SceneLibrary,
        num_agents: int,
        preparer: NavigationPreparer,
        *,
        episodes: str = "random",
        forward_step: float = 0.25,
        turn_angle: float = np.pi / 18,
        sliding: bool = True,
    ) -> None:
        self.library, self.num_agents = library, num_agents
        self.forward_step, self.turn_angle, self.sliding = forward_step, turn_angle, sliding
        self.schedule = EpisodeSchedule([0], episodes, rotates=library.rotates)
        self._navigation: list[Navigation | None] = [None] * library.num_slots
        self._navmeshes = NavMeshBatch(library.num_slots)
        self._key = library.add_preparer(preparer)
        self._user = library.join()
        self._generation, self._active = -1, library.active
        self._follow_library()
        self.agents, self.episodes = agent_state(num_agents), episode_state(num_agents)
        self._moved, self._collided = np.zeros(num_agents, np.float32), np.zeros(num_agents, bool)

    def navmesh(self, slot: int) -> NavMesh:
        """The navmesh of the scene in a slot."""
        return self._at(slot).navmesh

    def episode_set(self, slot: int) -> EpisodeSet:
        """The episodes of the scene in a slot."""
        return self._at(slot).episodes

    def seed(self, seeds: Sequence[int | None], mask: np.ndarray, *, fresh: bool = False) -> None:
        """Start the plans of scenes and episodes again.

        Args:
            seeds: N seeds, 0 to 2**64 - 1; an agent whose seed is None goes on with its plan.
            mask: [N] bool, the agents to seed. If all are given a seed, the queue of mode ``"once"`` begins anew.
            fresh: No agent has a plan yet: those without a seed are given a random one.
        """
        if fresh:
            self.episodes.seed[:] = np.random.SeedSequence().generate_state(self.num_agents, np.uint64)
        for index in np.nonzero(mask)[0].tolist():
            seed = seeds[index]
            if seed is not None:
                self.episodes.seed[index] = seed
                self.episodes.count[index] = 0
        if mask.all() and None not in seeds:
            self.schedule.restart(self.schedule.mode)
            self.library.restart(self._user, int(self.episodes.seed[0]))

    def advance(self) -> None:
        """Let scenes change if it is their turn; the pictures of the last step have been read."""
        self.library.advance(self._user)
        self._follow_library()

    def move(self, actions: np.ndarray, active: np.ndarray) -> None:
        """Turn or move the active agents and bring their episodes up to date.

        Args:
            actions: [N] int64, 0 to 3.
            active: [N] bool; the others stand still and nothing is counted for them.
        """
        claim_process("step")
        agents, episodes = self.agents, self.episodes
        self._navmeshes.step(
            actions,
            agents.scene,
            agents.polygon,
            agents.position,
            agents.heading,
            forward_step=self.forward_step,
            turn_angle=self.turn_angle,
            sliding=self.sliding,
            active=active,
            moved_out=self._moved,
            collided_out=self._collided,
        )
        episodes.stopped[:] = active & (actions == STOP)
        episodes.num_steps[:] += active
        episodes.num_collisions[:] += active & self._collided
        episodes.path_length[:] += np.where(active, self._moved, 0)
        episodes.previous_distance[:] = episodes.distance
        self._update_distance()

    def begin_episodes(self, indices: np.ndarray, wanted: np.ndarray | None = None) -> None:
        """Begin an episode for some agents.

        Args:
            indices: [M] int, the agents, ascending.
            wanted: [M] int, the episodes to run, numbered through all scenes, or where scenes rotate, in the scene that
                each agent enters; None takes the next ones of the schedule.

        Raises:
            ValueError: a scene has fewer episodes; then nothing has changed.
        """
        if len(indices) == 0:
            return
        self._follow_library()
        state = self.episodes
        if wanted is None:
            slot, row, found = self.schedule.draw(indices, state.seed[indices], state.count[indices])
        else:
            slot, row = self._locate(indices, wanted)
            found = np.ones(len(indices), bool)
        state.valid[indices], state.done[indices] = found, False
        state.count[indices] += found
        indices, slot, row = indices[found], slot[found], row[found]
        for one in np.unique(slot):
            here, rows = indices[slot == one], row[slot == one]
            navigation = self._at(one)
            episodes = navigation.episodes
            self.agents.scene[here] = one
            self._place(here, navigation.start_polygon[rows], episodes.start[rows], episodes.heading[rows])
            state.episode[here], state.goal_index[here] = rows, episodes.goal_index[rows]
            state.goal[here] = episodes.goals[episodes.goal_index[rows]]
            for distance in (state.start_distance, state.previous_distance, state.distance):
                distance[here] = episodes.distance[rows]
        state.path_length[indices] = 0
        state.num_steps[indices] = state.num_collisions[indices] = 0
        state.stopped[indices] = False
        self.library.occupy(self._user, self.agents.scene)

    def set_pose(self, indices: np.ndarray, position: np.ndarray, heading: np.ndarray) -> None:
        """Put agents elsewhere in their scenes; their episodes go on.

        Args:
            indices: [M] int, the agents.
            position: [M, 3], metres, each navigable.
            heading: [M], radians.

        Raises:
            ValueError: a position is not navigable or a heading not finite; then no agent has moved.
        """
        if not np.isfinite(heading).all():
            raise ValueError("headings must be finite numbers of radians")
        scene = self.agents.scene[indices]
        snapped, polygon = np.empty((len(indices), 3), np.float32), np.empty(len(indices), np.int32)
        for slot in np.unique(scene):
            here = scene == slot
            navigable = self.navmesh(slot).is_navigable(position[here])
            if not navigable.all():
                point = position[here][~navigable][0]
                raise ValueError(f"{point} is not navigable in {self.library.name(slot)!r}: snap it first")
            snapped[here], polygon[here] = self.navmesh(slot).snap_with_polygon(position[here])
        self._place(indices, polygon, snapped, heading)
        self._update_distance()

    def shortest_path_actions(self, goal_radius: float) -> np.ndarray:
        """What the greedy shortest-path follower would do now: [N] int64 actions."""
        claim_process("shortest_path_actions")
        agents = self.agents
        return self._navmeshes.next_action(
            agents.scene,
            agents.polygon,
            agents.position,
            agents.heading,
            self.episodes.goal_index,
            forward_step=self.forward_step,
            turn_angle=self.turn_angle,
            goal_radius=goal_radius,
            sliding=self.sliding,
        )

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here: copied arrays and plain values."""
        return {
            "agents": copy_arrays(self.agents),
            "episodes": copy_arrays(self.episodes),
            "schedule": self.schedule.get_state(),
            "library": self.library.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that a simulator of the same arguments gave.

        Raises:
            ValueError: it is of another number of agents, or of other scenes or episodes; then nothing has changed.
        """
        missing = {"agents", "episodes", "schedule", "library"} - set(state)
        if missing:
            raise ValueError(f"state without {', '.join(sorted(missing))}: give what get_state() returned")
        for current, given in ((self.agents, state["agents"]), (self.episodes, state["episodes"])):
            check_arrays(current, given)
        before = self.library.get_state()
        self.library.set_state(self._user, state["library"])
        self._follow_library()
        try:
            self._check_rows(state)
        except ValueError:
            self.library.set_state(self._user, before)
            self._follow_library()
            raise
        self.schedule.set_state(state["schedule"])
        write_arrays(self.agents, state["agents"])
        write_arrays(self.episodes, state["episodes"])
        self.library.occupy(self._user, self.agents.scene)

    def close(self) -> None:
        """Let the library forget what was prepared for this simulator; safe twice."""
        self.library.remove_preparer(self._key)
        self.library.leave(self._user)

    def _locate(self, indices: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slots and rows of the episodes ``wanted`` [M] by the agents ``indices`` [M]."""
        if not self.library.rotates:
            return self.schedule.locate(wanted)
        slot = self.schedule.slot(indices, self.episodes.count[indices])
        sizes = np.array([len(self.episode_set(one)) for one in slot.tolist()])
        if (wanted >= sizes).any():
            index = int((wanted >= sizes).argmax())
            raise ValueError(
                f"episode {wanted[index]} for environment {indices[index]}: scene {self.library.name(slot[index])!r}, "
                f"which it enters, has {sizes[index]}"
            )
        return slot, wanted

    def _at(self, slot: int) -> Navigation:
        """What was prepared of the scene in a slot."""
        navigation = self._navigation[slot]
        if navigation is None:
            raise ValueError(f"slot {slot} of the scene library is empty")
        return navigation

    def _follow_library(self) -> None:
        """Take over what has changed in the library's slots."""
        library = self.library
        if self._generation == library.generation and self._active is library.active:
            return
        for slot in range(library.num_slots):
            navigation = library.prepared(slot, self._key)
            if navigation is not self._navigation[slot]:
                self._navigation[slot] = navigation
                if navigation is None:
                    self._navmeshes.clear_slot(slot)
                else:
                    self._navmeshes.set_slot(slot, navigation.tables)
        self._generation, self._active = library.generation, library.active
        self.schedule.follow([0 if one is None else len(one.episodes) for one in self._navigation], library.active)

    def _check_rows(self, state: dict[str, Any]) -> None:
        """Refuse a state whose rows point past what the scenes have.

        Raises:
            ValueError: They do.
        """
        scene = np.asarray(state["agents"]["scene"])
        if scene.min() < 0 or scene.max() >= self.library.num_slots:
            raise ValueError(f"state with scenes up to {scene.max()}: this library has {self.library.num_slots}")
        held = self._navigation
        limits = {
            "episode": [0 if one is None else len(one.episodes) for one in held],
            "goal_index": [0 if one is None else len(one.episodes.goals) for one in held],
            "polygon": [0 if one is None else one.navmesh.num_polygons for one in held],
        }
        for name, limit in limits.items():
            rows = np.asarray({**state["agents"], **state["episodes"]}[name])
            if (rows < 0).any() or (rows >= np.array(limit)[scene]).any():
                raise ValueError(f"state array {name!r} does not fit: it is of other scenes or episodes")

    def _update_distance(self) -> None:
        """Geodesic distance of every agent to its goal."""
        agents, episodes = self.agents, self.episodes
        self._navmeshes.distance(agents.scene, agents.polygon, agents.position, episodes.goal_index, episodes.distance)

    def _place(self, indices: np.ndarray, polygon: np.ndarray, position: np.ndarray, heading: np.ndarray) -> None:
        """Write the poses of agents ``indices`` [M]."""
        self.agents.polygon[indices] = polygon
        self.agents.position[indices] = position
        self.agents.heading[indices] = heading
