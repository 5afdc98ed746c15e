"""Worlds: groups of agents that share a scene, with people and other bodies that move in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gym_batchnav.episodes.draws import keyed_uniform, step_uniform
from gym_batchnav.library.prepare import Navigation
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import AgentState, StepOutcome, WorldState, WorldView, arrays_of, read_only, world_state
from gym_batchnav.worlds.api import BODY_HEIGHT, MAX_BODIES, OF_DOORS, BodyMotion, MovingBodies, Team
from gym_batchnav.worlds.crowd import Crowd, separate

GAP = 0.1  # metres that are left between two bodies


class Worlds:
    """W worlds of M agents each, and the bodies in them that no policy moves.

    Agents move first as if they were alone, then the other bodies, and then those that collide are stopped.

    Args:
        team: The agents of a world.
        bodies: Groups of other bodies; every world has all of them.
        arrays: Arrays as ``world_arrays`` makes them, written in place.
        navmeshes: The navmeshes of the slots.
        navigation: Returns the navmesh, tables and episodes of the scene in a slot.
        scene_name: Returns the name of the scene in a slot.
        seconds: Duration of a step.

    Attributes:
        state: WorldState, written in place.
        team: The agents of a world.
        bodies: The groups of other bodies.
        shapes: [B] names of the bodies' shapes, for drawing.
        radius: [B] float64, metres.
        seconds: Duration of a step.
    """

    def __init__(
        self,
        team: Team,
        bodies: Sequence[MovingBodies],
        arrays: Mapping[str, np.ndarray],
        navmeshes: NavMeshAgents,
        navigation: Callable[[int], Navigation],
        scene_name: Callable[[int], str],
        seconds: float,
    ) -> None:
        counts = [team.most, *(group.num for group in bodies)]
        self.team = team
        self.bodies = tuple(bodies)
        self.seconds = seconds
        self.state = WorldState(**{name: array for name, array in arrays.items() if name != "keys"})
        groups = ((team.shape, team.radius), *((group.shape, group.radius) for group in bodies))
        shapes = [np.broadcast_to(shape, count) for (shape, _), count in zip(groups, counts, strict=True)]
        radii = [np.broadcast_to(radius, count) for (_, radius), count in zip(groups, counts, strict=True)]
        self.shapes: tuple[str, ...] = tuple(np.concatenate(shapes).tolist())
        self.radius = np.concatenate(radii).astype(np.float64)
        fixed = [False, *(group.is_fixed for group in bodies)]
        self._fixed = np.concatenate([np.broadcast_to(one, count) for one, count in zip(fixed, counts, strict=True)])
        needed = [True, *(group.needs_start for group in bodies)]
        self._placed = np.flatnonzero(np.repeat(needed, counts))  # bodies that begin at starts of episodes
        ends = np.cumsum(counts)
        self._columns = [slice(int(end - count), int(end)) for end, count in zip(ends[1:], counts[1:], strict=True)]
        self._navmeshes = navmeshes
        self._navigation = navigation
        self._scene_name = scene_name
        self._keys = arrays["keys"]
        self.num_worlds = len(self._keys)

    @property
    def num_agents(self) -> int:
        """M."""
        return self.team.most

    @property
    def view(self) -> WorldView:
        """The worlds as tasks, sensors and measures read them."""
        return WorldView(read_only(self.state), self.radius, self.seconds, BODY_HEIGHT, self.team.least)

    def of_rows(self, indices: np.ndarray) -> np.ndarray:
        """Return the worlds [K] of agents ``indices`` [M K] int, all agents of each world.

        Raises:
            ValueError: Only some agents of a world are given.
        """
        worlds = np.unique(indices // self.num_agents)
        if len(worlds) * self.num_agents != len(indices):
            counts = np.bincount(indices // self.num_agents)
            first = self.num_agents * int(np.argmax((counts > 0) & (counts < self.num_agents)))
            raise ValueError(
                f"the {self.num_agents} agents of a world begin and pause together: choose all or none of the rows "
                f"{first} to {first + self.num_agents - 1}"
            )
        return worlds

    def choose_rows(self, worlds: np.ndarray, slot: np.ndarray, leader: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Choose the episodes of all bodies of worlds and put the bodies at their starts.

        Args:
            worlds: [K] int, the worlds that begin.
            slot: [K] int, the slots that they enter.
            leader: [K] int, the rows of the first agents' episodes.
            keys: [K] uint64, the keys of the first agents' episodes.

        Returns:
            [K, M] int64, the rows of the agents' episodes.

        Raises:
            ValueError: A scene has no room for so many bodies.
        """
        state = self.state
        self._keys[worlds] = keys
        draws = step_uniform(keys, np.zeros(len(worlds), np.int64), "places", 16 * state.present.shape[1])
        draws = draws.reshape(len(worlds), state.present.shape[1], 16)
        rows = np.empty(state.present[worlds].shape, np.int64)
        for entered in np.unique(slot):
            here = slot == entered
            navigation = self._navigation(int(entered))
            try:
                found = place_bodies(navigation, leader[here], self.radius[self._placed], draws[here][:, self._placed])
            except ValueError as error:
                raise ValueError(f"scene {self._scene_name(int(entered))!r}: {error}") from error
            rows[here] = leader[here, None]
            rows[np.ix_(here, self._placed)] = found
            episodes = navigation.episode_set
            state.polygon[worlds[here]] = navigation.start_polygon[rows[here]]
            state.position[worlds[here]] = episodes.start[rows[here]]
            state.heading[worlds[here]] = episodes.heading[rows[here]]
            state.goal_index[worlds[here]] = episodes.goal_index[rows[here]]
        state.previous[worlds] = state.position[worlds]
        count = keyed_uniform(keys, 1, 0) * (self.team.most - self.team.least + 1)
        absent = np.arange(self.num_agents) >= self.team.least + count.astype(np.int64)[:, None]
        for array in (state.num_steps, state.touched, state.num_touches, state.num_goals, state.terminated):
            array[worlds] = 0
        state.truncated[worlds] = absent
        state.present[worlds] = True
        state.present[worlds, : self.num_agents] = ~absent
        return rows[:, : self.num_agents]

    def begin(self, worlds: np.ndarray, agents: AgentState) -> None:
        """Let the other bodies begin, once the agents of ``worlds`` [K] stand at their starts."""
        slots = self._slots(agents)
        for group, columns in zip(self.bodies, self._columns, strict=True):
            group.begin(self._motion(columns, slots, worlds))
        self.state.previous[worlds] = self.state.position[worlds]

    def waiting(self) -> np.ndarray:
        """Return which agents [N] bool have ended their episodes, but not all agents of their worlds have."""
        return self.state.waiting.ravel()

    def before(self, agents: AgentState) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the polygons [W, B] and positions [W, B, 3] of all bodies before a step."""
        self.copy_agents(agents)
        return self.state.polygon.copy(), self.state.position.copy()

    def move(
        self, before: tuple[np.ndarray, np.ndarray], agents: AgentState, active: np.ndarray, outcome: StepOutcome
    ) -> None:
        """Move the other bodies, after the agents have moved as if they were alone, and stop those that collide.

        Args:
            before: What ``before`` returned.
            agents: All agents; those that are stopped are moved back.
            active: [N] bool, the agents that acted. Worlds without any rest: their state does not change.
            outcome: What the agents did; changed for those that are stopped.
        """
        state = self.state
        old_polygon, old_position = before
        self.copy_agents(agents)
        acts = np.logical_or.reduce(active.reshape(self.num_worlds, -1), axis=1)
        worlds = np.nonzero(acts)[0]
        slots = self._slots(agents)
        state.previous[worlds] = old_position[worlds]
        if len(worlds):
            for group, columns in zip(self.bodies, self._columns, strict=True):
                group.move(self._motion(columns, slots, worlds))
        separate(
            self._navmeshes,
            Crowd(
                np.where(acts, slots, -1).astype(np.int32),
                state.present,
                self._fixed,
                self.radius,
                BODY_HEIGHT,
                old_polygon,
                old_position,
                state.polygon,
                state.position,
                state.touched,
            ),
        )
        state.num_touches[worlds] += state.touched[worlds]
        state.num_steps[worlds] += 1
        rows = np.nonzero(state.touched[:, : self.num_agents].ravel() & active)[0]
        if len(rows):
            ours = slice(None), slice(self.num_agents)
            agents.polygon[rows] = state.polygon[ours].reshape(-1)[rows]
            agents.position[rows] = state.position[ours].reshape(-1, 3)[rows]
            way = agents.position[rows] - old_position[ours].reshape(-1, 3)[rows]
            outcome.moved[rows] = np.linalg.norm(way.astype(np.float64), axis=1)
            outcome.collided[rows] = True

    def end(self, terminated: np.ndarray, truncated: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which agents' episodes end now, terminated and truncated [N] bool: those of a world end together.

        An agent whose own episode has ended leaves its world and waits for the others.

        Args:
            terminated: [N] bool, the agents whose own episodes have been terminated in this step.
            truncated: [N] bool, the agents whose own episodes have been truncated in this step.
            active: [N] bool, the agents that acted.
        """
        state = self.state
        shape = state.terminated.shape
        state.terminated[:] |= terminated.reshape(shape)
        state.truncated[:] |= truncated.reshape(shape)
        acted = active.reshape(shape)
        ends: np.ndarray = np.all(state.waiting, axis=1) & np.any(acted, axis=1)
        # Those that end with their world stay in the picture until the next episode begins.
        state.present[:, : self.num_agents][state.waiting & acted & ~ends[:, None]] = False
        done = np.repeat(ends, self.num_agents)
        ended = state.terminated.ravel() & done
        return ended, done & ~ended

    def took_part(self) -> np.ndarray:
        """Return which agents [N] bool take part in the episodes of their worlds."""
        absent = self.state.truncated & ~self.state.terminated & ~self.state.present[:, : self.num_agents]
        return ~absent.ravel()

    def copy_agents(self, agents: AgentState) -> None:
        """Copy the poses of the agents into the state of all bodies."""
        ours = slice(self.num_agents)
        shape = (self.num_worlds, self.num_agents)
        self.state.polygon[:, ours] = agents.polygon.reshape(shape)
        self.state.position[:, ours] = agents.position.reshape(*shape, 3)
        self.state.heading[:, ours] = agents.heading.reshape(shape)

    def put_agents(self, indices: np.ndarray, agents: AgentState) -> None:
        """Record that agents ``indices`` [M] were teleported, which does not count as motion."""
        self.copy_agents(agents)
        world, column = np.divmod(indices, self.num_agents)
        self.state.previous[world, column] = self.state.position[world, column]

    def _slots(self, agents: AgentState) -> np.ndarray:
        """Return the slots [W] int32 of the worlds' scenes."""
        return np.ascontiguousarray(agents.slot[:: self.num_agents])

    def _motion(self, columns: slice, slots: np.ndarray, worlds: np.ndarray) -> BodyMotion:
        """Return what a group of bodies reads and writes."""

        def new_goals(world: np.ndarray, column: np.ndarray, uniform: np.ndarray) -> np.ndarray:
            goals = np.empty(len(world), np.int32)
            for slot in np.unique(slots[world]):
                here = slots[world] == slot
                polygon = self.state.polygon[world[here], column[here]]
                goals[here] = draw_goals(self._navigation(int(slot)), polygon, uniform[here])
            return goals

        return BodyMotion(
            columns,
            self.state,
            slots,
            worlds,
            self._navmeshes,
            lambda slot: self._navigation(slot).navmesh,
            self._scene_name,
            self.radius,
            np.isin(self.shapes, OF_DOORS),
            self.seconds,
            self._keys,
            new_goals,
        )


def world_arrays(num_agents: int, team: Team, bodies: Sequence[MovingBodies]) -> dict[str, np.ndarray] | None:
    """Return the zeroed arrays of worlds by name: those of WorldState, and ``keys`` [W] uint64 of the episodes.

    It is None if each agent is alone.

    Raises:
        ValueError: A world would have more than ``MAX_BODIES`` bodies.
    """
    total = team.most + sum(group.num for group in bodies)
    if total == 1:
        return None
    if total > MAX_BODIES:
        raise ValueError(f"agents_per_world= and bodies= make {total} bodies per world: use at most {MAX_BODIES}")
    num_worlds = num_agents // team.most
    return {**arrays_of(world_state(num_worlds, team.most, total)), "keys": np.zeros(num_worlds, np.uint64)}


def draw_goals(navigation: Navigation, polygon: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return goals [G] on the islands of polygons [G] of a scene, drawn by uniform numbers [G] from 0 to 1."""
    goals = np.empty(len(polygon), np.int32)
    island_of = navigation.navmesh.polygon_island
    of_starts = island_of[navigation.start_polygon]
    islands = island_of[polygon]
    for island in np.unique(islands):
        here = islands == island
        rows = np.nonzero(of_starts == island)[0]
        chosen = (uniform[here] * len(rows)).astype(np.int64)
        goals[here] = navigation.episode_set.goal_index[rows[chosen]] if len(rows) else 0
    return goals


def place_bodies(navigation: Navigation, leader: np.ndarray, radius: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Choose an episode for every body of K worlds of one scene, at whose start it begins.

    Each body takes the first of its drawn episodes that begins on the first body's island, apart from the bodies before
    it. If none does, all episodes of that island are searched, and then those of others.

    Args:
        navigation: The scene.
        leader: [K] int, the episodes of the first bodies.
        radius: [B] float64, metres.
        draws: [K, B, D] float64, uniform numbers from 0 to 1.

    Returns:
        [K, B] int64, rows of the scene's episodes.

    Raises:
        ValueError: The scene has no room for so many bodies.
    """
    num_bodies = len(radius)
    rows = np.empty((len(draws), num_bodies), np.int64)
    rows[:, 0] = leader
    candidates = (draws * len(navigation.start_polygon)).astype(np.int64)
    for body in range(1, num_bodies):
        fits = _fits(navigation, rows[:, :body], radius[:body] + radius[body], candidates[:, body])
        rows[:, body] = np.take_along_axis(candidates[:, body], fits.argmax(axis=1)[:, None], axis=1)[:, 0]
        for world in np.nonzero(~fits.any(axis=1))[0].tolist():
            left = _all_that_fit(navigation, rows[world : world + 1, :body], radius[:body] + radius[body])
            if not len(left):
                raise ValueError(
                    f"there is no room for {num_bodies} bodies in a world: only {body} of them can begin without "
                    "touching; use fewer agents_per_world or bodies, or a larger Episodes(count=)"
                )
            rows[world, body] = left[int(draws[world, body, 0] * len(left))]
    return rows


def _all_that_fit(navigation: Navigation, placed: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return all rows that fit together with the bodies ``placed`` [1, b]; other islands' only if no other fits.

    ``reach`` is that of ``_fits``.
    """
    every = np.arange(len(navigation.start_polygon))[None]
    found = _fits(navigation, placed, reach, every)[0].nonzero()[0]
    return found if len(found) else _fits(navigation, placed, reach, every, anywhere=True)[0].nonzero()[0]


def _fits(
    navigation: Navigation, placed: np.ndarray, reach: np.ndarray, candidates: np.ndarray, anywhere: bool = False
) -> np.ndarray:
    """Return which candidates are on the first body's island and apart from all that are placed.

    Args:
        navigation: The scene.
        placed: [K, b] int, rows of the bodies before.
        reach: [b] float64, the distances at which they would be touched, metres.
        candidates: [K, D] int, rows.
        anywhere: Accept other islands, too.

    Returns:
        [K, D] bool.
    """
    start = navigation.episode_set.start
    way = start[candidates][:, :, None] - start[placed][:, None]
    apart = (np.linalg.norm(way, axis=3) > reach + GAP).all(axis=2)
    if anywhere:
        return apart
    islands, polygon = navigation.navmesh.polygon_island, navigation.start_polygon
    return apart & (islands[polygon[candidates]] == islands[polygon[placed[:, :1]]])
