"""Simulator: N agents on the navmeshes of a library's scenes, and their episodes. It does not render."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from gymnasium.spaces import Discrete

from gym_batchnav.actions.api import MAX_PITCH, check_commands
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.functional import BatchState, check_fits
from gym_batchnav.episodes.draws import episode_key, name_key, step_uniform
from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.episodes.schedule import EpisodeSchedule
from gym_batchnav.geometry import wrap_angle
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.prepare import Navigation
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.state import StateBlock, StepOutcome, checked_parts, write_arrays
from gym_batchnav.system.process import claim_process, num_processors
from gym_batchnav.worlds.api import STEP_SECONDS
from gym_batchnav.worlds.worlds import Worlds, world_arrays

if TYPE_CHECKING:
    from gym_batchnav.env.config import EnvConfig


class Simulator:
    """Moves N agents at once and tracks their episodes."""

    def __init__(self, config: EnvConfig) -> None:
        preparer = config.preparer()
        components = config.components
        self.library = library = config.make_library(preparer)
        self.num_agents = num_agents = config.num_envs
        self.actions = config.action_kind
        self.actuation_noise = config.noise
        self.sliding = config.sliding
        self.geodesic = config.geodesic
        self._check_buffers = components.check_buffers
        arrays = world_arrays(num_agents, config.team, config.bodies)
        if num_processors() < numba.config.NUMBA_NUM_THREADS:  # type: ignore[attr-defined]
            numba.set_num_threads(min(num_processors(), numba.get_num_threads()))  # Numba ignores a container's quota
        owners = (components, config.delays, self.actions)
        buffers: dict[str, np.ndarray] = {}
        for owner in owners:
            for name, array in owner.buffers(num_agents).items():
                if name in buffers:
                    raise ValueError(f"buffers {name!r} of a component: the batch has others of this name; rename them")
                buffers[name] = array
        self.state = StateBlock(num_agents, buffers, arrays)  # the following three, written in place
        self.agents = self.state.agents
        self.episodes = self.state.episodes
        self.buffers = self.state.buffers
        self.navmeshes = self.actions.make_agents(library.num_slots, self.buffers)  # the kernels' view of all slots
        self.episodes.seed[:] = np.random.SeedSequence().generate_state(num_agents, np.uint64)
        self.agents.position[:] = np.nan
        self.agents.heading[:] = np.nan
        self.begun = np.zeros(num_agents, bool)  # an episode, since the last seeding
        self.schedule = EpisodeSchedule([0], config.episode_settings.order, rotates=library.rotates)
        self._outcome = StepOutcome(np.zeros(num_agents, np.float32), np.zeros(num_agents, bool))
        self.navigations: list[Navigation | None] = [None] * library.num_slots  # None for an empty one
        self.worlds = None  # each agent is alone
        if arrays is not None:
            seconds = float(getattr(self.actions, "time_step", STEP_SECONDS))
            bodies = config.team, config.bodies, self.state.parts["worlds"]
            self.worlds = Worlds(*bodies, self.navmeshes, self.navigation, library.name, seconds)
        (self._key,) = library.add_preparers([preparer])
        self._user = library.join()
        self._world_size = 1 if self.worlds is None else self.worlds.num_agents
        self._generation = -1
        self._active = library.active
        self._sync_slots()

    # The scenes in the slots

    def navigation(self, slot: int) -> Navigation:
        """Return the navmesh, tables and episodes of the scene in a slot; ValueError if there is none."""
        navigation = self.navigations[slot] if 0 <= slot < len(self.navigations) else None
        if navigation is None:
            raise ValueError(f"slot {slot} holds no scene: choose one of library.active")
        return navigation

    def navmesh(self, slot: int) -> NavMesh:
        """Return the navmesh of the scene in a slot."""
        return self.navigation(slot).navmesh

    def episode_set(self, slot: int) -> EpisodeSet:
        """Return the episodes of the scene in a slot."""
        return self.navigation(slot).episode_set

    def visible_floor(self, slots: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the points [M, 3] float32, metres, of the visible floor at positions [M, 3] in slots [M]."""
        snapped, polygon = self._snap(slots, position)
        return self.navmeshes.visible_floor(np.ascontiguousarray(slots, np.int32), polygon, snapped)

    def _snap(self, slots: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest points [M, 3] float32 on the navmeshes of slots [M], and their polygons [M] int32."""
        snapped = np.empty((len(slots), 3), np.float32)
        polygon = np.empty(len(slots), np.int32)
        for slot in np.unique(slots):
            here = slots == slot
            snapped[here], polygon[here] = self.navigation(slot).snap_with_polygon(position[here])
        return snapped, polygon

    # The plan of scenes and episodes

    def seed(self, seeds: Sequence[int | None], mask: np.ndarray) -> None:
        """Restart the sequences of episodes of the agents of a mask [N] bool whose seed is not None.

        If all get a seed, the sequence of scenes restarts, too.
        """
        for index in np.nonzero(mask)[0].tolist():
            seed = seeds[index]
            if seed is not None:
                self.episodes.seed[index] = seed
                self.episodes.count[index] = 0
        if mask.all() and None not in seeds:
            self.begun[:] = False  # slots may change their scenes while agents still stand in them
            self.schedule.rewind()
            self.library.restart(self._user, int(self.episodes.seed[0]))

    def restart(self, order: str, chosen: np.ndarray | None, mask: np.ndarray) -> None:
        """Restart the schedule, see ``EpisodeSchedule.restart``; the agents of a mask [N] bool then begin anew."""
        self.schedule.restart(order, chosen)
        self.begun[mask] = False

    def advance(self) -> None:
        """Advance the library by one step; scenes may change, so the images of the last step must have been read."""
        self.library.advance(self._user)
        self._sync_slots()

    def begin_episodes(self, indices: np.ndarray, requested: np.ndarray | None = None) -> np.ndarray:
        """Begin an episode for agents ``indices`` [M], ascending, and return those of them that had one left.

        Requested episodes [M] are numbered across all scenes or, if scenes rotate, within the scene that each agent
        enters. None runs the next ones of the schedule.

        Raises:
            ValueError: A scene has fewer episodes; nothing changes then.
        """
        if len(indices) == 0:
            return indices
        self._sync_slots()
        state = self.episodes
        if requested is None and self.schedule.order == "once":
            idle = self.begun & state.valid & (state.num_steps == 0)  # also agents that take no part in their world
            worlds = idle.reshape(-1, self._world_size).all(axis=1)
            again = indices[worlds[indices // self._world_size]]
            if len(again):  # these episodes have not run yet
                state.count[again] = np.maximum(state.count[again] - 1, 0)
                self.begin_episodes(again, self.schedule.index(self.agents.slot[again], state.episode[again]))
                return np.union1d(again, self.begin_episodes(np.setdiff1d(indices, again)))
        slot, row, found = self._choose(indices, requested)
        self.begun[indices] = True
        state.valid[indices] = found
        state.done[indices] = False
        state.count[indices] += found
        self._place_idle(indices[~found])
        indices = indices[found]
        slot, row, state.key[indices] = self._for_worlds(indices, slot, row)
        self.agents.slot[indices] = slot
        self.agents.pitch[indices] = 0
        counters = (state.path_length, state.num_steps, state.num_collisions, state.stopped)
        for counter in (*counters, state.num_reached, state.reached, state.reached_distance):
            counter[indices] = 0
        for entered in np.unique(slot):
            there = slot == entered
            self._start(indices[there], int(entered), row[there])
        self.library.occupy(self._user, self.agents.slot)
        if self.worlds is not None and len(indices):
            self.worlds.begin(self.worlds.of_rows(indices), self.agents)
        return indices

    # The agents

    def move(self, actions: np.ndarray, active: np.ndarray) -> None:
        """Turn and move the ``active`` agents [N] bool, tilt their cameras, and update their episodes.

        Actions [N, ...] have been validated by ``self.actions``.
        """
        agents = self.agents
        episodes = self.episodes
        commands = self.actions.decode(actions)
        noise = self.actuation_noise
        if noise is not None:
            uniform = step_uniform(episodes.key, episodes.num_steps, "actuation_noise", noise.num_draws)
            commands = noise.apply(commands, uniform, isinstance(self.actions.space, Discrete))
        if noise is not None or type(self.actions) is not DiscreteActions:  # whose motions are checked already
            check_commands(commands)
        np.copyto(episodes.stopped, commands.stop, where=active)
        if commands.look is not None:
            np.copyto(agents.pitch, np.clip(agents.pitch + commands.look, -MAX_PITCH, MAX_PITCH), where=active)
        before = None if self.worlds is None else self.worlds.before(agents)
        outcome = self._outcome
        self.navmeshes.step(commands, agents, active, outcome, sliding=self.sliding)
        if self.worlds is not None and before is not None:
            self.worlds.move(before, agents, active, outcome)
        episodes.num_steps[:] += active
        episodes.num_collisions[:] += outcome.collided  # inactive agents have not moved, nor collided
        episodes.path_length[:] += outcome.moved
        np.copyto(episodes.previous_distance, episodes.distance, where=active)
        self._update_distance(active)

    def reach_goals(self, success_distance: float, active: np.ndarray) -> None:
        """Record which ``active`` agents [N] bool called STOP at their goals, and give those on a tour their next goal.

        A goal is reached within ``success_distance`` geodesic metres.
        """
        state = self.episodes
        reached = state.stopped & (state.distance < success_distance)
        np.copyto(state.reached, reached, where=active)
        rows = np.nonzero(reached & active & (state.num_reached < state.num_goals))[0]
        is_last = state.num_reached[rows] + 1 == state.num_goals[rows]
        finished = rows[is_last]
        state.num_reached[finished] += 1
        state.reached_distance[finished] = state.start_distance[finished]
        rows = rows[~is_last]
        if len(rows) == 0:
            return
        slots = self.agents.slot[rows]
        for slot in np.unique(slots):
            self._next_goals(rows[slots == slot], self.episode_set(slot))
        self._update_distance(rows)
        state.previous_distance[rows] = state.distance[rows]

    def set_pose(
        self, indices: np.ndarray, position: np.ndarray, heading: np.ndarray, pitch: np.ndarray | None = None
    ) -> None:
        """Move agents ``indices`` [M] to poses in their scenes, see ``BatchNavEnv.set_pose``; their episodes continue.

        Raises:
            ValueError: A position is not navigable, a heading is not finite, or a pitch is NaN or too large; no agent
                is moved then.
        """
        if not np.isfinite(heading).all():
            raise ValueError("headings must be finite numbers of radians")
        if pitch is not None and not (np.abs(pitch) <= np.float32(MAX_PITCH)).all():
            raise ValueError("pitches must be from -pi/2 to pi/2 radians")
        slots = self.agents.slot[indices]
        for slot in np.unique(slots):
            points = position[slots == slot]
            wrong = points[~self.navigation(slot).is_navigable(points)]
            if len(wrong):
                name = self.library.name(slot)
                raise ValueError(
                    f"position {wrong[0]} is not navigable in {name!r}: move it with NavMesh.snap, or choose another"
                )
        snapped, polygon = self._snap(slots, position)
        turned = np.where(np.abs(heading) <= np.float32(np.pi), heading, wrap_angle(heading))
        self._place(indices, polygon, snapped, turned)
        if pitch is not None:
            self.agents.pitch[indices] = np.clip(pitch, -MAX_PITCH, MAX_PITCH)
        if self.worlds is not None:
            self.worlds.put_agents(indices, self.agents)
        self._update_distance(indices)

    def shortest_path_actions(self, goal_radius: float) -> np.ndarray:
        """Return the next actions [N, ...] of the greedy shortest-path follower."""
        claim_process("shortest_path_actions")
        return self.actions.follow(self.navmeshes, self.agents, self.episodes.goal_index, goal_radius, self.sliding)

    # The state

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``set_state`` needs to resume from here: copied arrays and plain values."""
        return self.snapshot().as_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from the state of a simulator with the same arguments.

        Raises:
            ValueError: The state has another number of agents, or other scenes, episodes or sensors; nothing changes
                then.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"state is a {type(state).__name__}: pass what get_state() returned")
        missing = {*self.state.parts, "schedule", "library"} - set(state)
        if missing:
            raise ValueError(f"state without {', '.join(sorted(missing))}: pass what get_state() returned")
        before = self.library.get_state()
        order = self.schedule.get_state()
        self.library.set_state(self._user, state["library"])
        self._sync_slots()
        try:
            parts = self.checked(state)
            self.schedule.set_state(state["schedule"])
        except ValueError:
            self.library.set_state(self._user, before)
            self._sync_slots()
            self.schedule.set_state(order)
            raise
        for part, arrays in self.state.parts.items():
            write_arrays(arrays, parts[part])
        self._resume()

    def checked(self, state: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
        """Return the arrays of a state from outside, by part and name, if they fit the scenes in the slots.

        Raises:
            ValueError: An array has another shape or dtype than that of this simulator, or values that agents,
                episodes, bodies or components cannot have; kernels do not check what they read.
        """
        parts = checked_parts(self.state.parts, state)
        check_fits(parts, self.navigations)
        self.actions.check_buffers(parts["buffers"])
        self._check_buffers(parts["buffers"])
        return parts

    def snapshot(self) -> BatchState:
        """Return the state as a value."""
        library = self.library
        block = self.state.block.copy()
        return BatchState(self.state.layout, block, self.schedule.get_state(), library.get_state(), library.generation)

    def restore(self, state: BatchState) -> None:
        """Return to a state of ``snapshot``, loading scenes that have left; ValueError if one cannot be loaded."""
        library = self.library
        if library.generation != state.generation or (library.rotates and library.get_state() != state.library):
            self.set_state(state.as_dict())
            return
        self._sync_slots()
        self.state.block[:] = state.block
        self.schedule.set_state(state.schedule)
        self._resume()

    def close(self) -> None:
        """Release the data that the library prepared for these agents; idempotent."""
        self.library.remove_preparer(self._key)
        self.library.leave(self._user)

    # Helpers

    def _resume(self) -> None:
        """Let the agents go on in the episodes and scenes of a state that has been written."""
        self.begun[:] = True
        self.library.occupy(self._user, self.agents.slot)

    def _choose(self, indices: np.ndarray, requested: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the next episode of the first agent of each world of agents ``indices`` [M]; see ``begin_episodes``.

        Return the slots and rows [W] of the worlds that have an episode left, and whether each agent has one, [M] bool.
        """
        size = self._world_size
        worlds = indices if self.worlds is None else self.worlds.of_rows(indices)
        first = worlds * size
        state = self.episodes
        if requested is None:
            slot, row, found = self.schedule.draw(worlds, state.seed[first], state.count[first])
            return slot[found], row[found], np.repeat(found, size)
        row = requested[::size]
        found = np.ones(len(indices), bool)
        if not self.library.rotates:
            return *self.schedule.locate(row), found
        slot = self.schedule.slot(worlds, state.count[first])
        sizes = np.array([len(self.episode_set(one)) for one in slot.tolist()])
        if (row >= sizes).any():
            wrong = int((row >= sizes).argmax())
            raise ValueError(
                f"episode_index[{first[wrong]}] = {row[wrong]}: environment {first[wrong]} enters scene "
                f"{self.library.name(slot[wrong])!r}, which has episodes 0 to {sizes[wrong] - 1}"
            )
        return slot, row, found

    def _for_worlds(
        self, indices: np.ndarray, slot: np.ndarray, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slots, rows and keys of the episodes of agents ``indices`` [M], whose counts have been raised.

        ``slot`` and ``row`` [W] are those of the first agent of each world. Its other agents begin in the same scene,
        where there is room.
        """
        size = self._world_size
        state = self.episodes
        first = indices[::size]
        if self.schedule.order == "once":  # the environment that runs an episode depends on N
            keys = named_episode_keys(self.library, state.seed[:1], slot, row)
        else:
            keys = episode_key(state.seed[first], state.count[first])
        if self.worlds is None:
            return slot, row, keys
        rows = self.worlds.choose_rows(first // size, slot, row, keys)
        all_keys = episode_key(np.repeat(keys, size), indices % size)
        all_keys[::size] = keys
        return np.repeat(slot, size), rows.ravel(), all_keys

    def _place_idle(self, indices: np.ndarray) -> None:
        """Put agents that never had an episode, and get none, at the origin, so that observations stay finite."""
        nowhere = indices[np.isnan(self.agents.heading[indices])]
        self.agents.position[nowhere] = 0
        self.agents.heading[nowhere] = 0

    def _sync_slots(self) -> None:
        library = self.library
        if self._generation == library.generation and self._active is library.active:
            return
        for slot in range(library.num_slots):
            navigation = library.prepared(slot, self._key)
            if navigation is not self.navigations[slot]:
                self.navigations[slot] = navigation
                if navigation is None:
                    self.navmeshes.clear_slot(slot)
                else:
                    self.navmeshes.set_slot(slot, navigation.tables)
        self._generation = library.generation
        self._active = library.active
        self.schedule.follow([0 if one is None else len(one.episode_set) for one in self.navigations], library.active)

    def _start(self, indices: np.ndarray, slot: int, rows: np.ndarray) -> None:
        """Place agents ``indices`` [M] at the starts of the episodes ``rows`` [M] of the scene in a slot."""
        navigation = self.navigation(slot)
        state = self.episodes
        episodes = navigation.episode_set
        self._place(indices, navigation.start_polygon[rows], episodes.start[rows], episodes.heading[rows])
        nearest = episodes.nearest_goal[rows]
        state.episode[indices] = rows
        state.goal_index[indices] = episodes.tour[rows, 0]
        state.goal[indices] = episodes.goals[nearest]
        state.start[indices] = episodes.start[rows]
        state.start_heading[indices] = episodes.heading[rows]
        state.num_goals[indices] = episodes.num_goals[rows]
        state.category[indices] = episodes.category[rows]
        state.target[indices] = episodes.targets[nearest]
        state.viewpoint[indices] = episodes.goals[episodes.view_index[rows]]
        state.start_distance[indices] = episodes.distance[rows]
        for distance in (state.previous_distance, state.distance):
            distance[indices] = episodes.leg_distance[rows, 0]

    def _next_goals(self, indices: np.ndarray, episodes: EpisodeSet) -> None:
        """Count a goal as reached for agents ``indices`` [M] of one scene that have another one, and set that."""
        state = self.episodes
        row = state.episode[indices]
        state.reached_distance[indices] += episodes.leg_distance[row, state.num_reached[indices]]
        state.num_reached[indices] += 1
        goal_set = episodes.tour[row, state.num_reached[indices]]
        state.goal_index[indices] = goal_set
        state.goal[indices] = episodes.goals[episodes.first_goal[goal_set]]
        state.target[indices] = episodes.targets[episodes.first_goal[goal_set]]
        state.viewpoint[indices] = state.goal[indices]

    def _update_distance(self, rows: np.ndarray) -> None:
        """Write the geodesic distance to the goal of the agents ``rows``, a mask [N] bool or indices [M]."""
        agents = self.agents
        goal = self.episodes.goal_index
        found = np.empty(self.num_agents, np.float32)
        self.navmeshes.distance(agents.slot, agents.polygon, agents.position, goal, found, self.geodesic)
        self.episodes.distance[rows] = found[rows]

    def _place(self, indices: np.ndarray, polygon: np.ndarray, position: np.ndarray, heading: np.ndarray) -> None:
        self.agents.polygon[indices] = polygon
        self.agents.position[indices] = position
        self.agents.heading[indices] = heading


def named_episode_keys(library: SceneLibrary, seed: np.ndarray, slot: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return keys [M] uint64 of episodes that depend on the seed, the names of their scenes and their rows alone.

    Seeds are [1] or [M] uint64; slots of the scenes and rows of the episodes in them are [M] int.
    """
    names = np.array([name_key(library.name(one)) for one in slot.tolist()], np.uint64)
    return episode_key(episode_key(seed, names), row)
