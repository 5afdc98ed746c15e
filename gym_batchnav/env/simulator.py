"""BatchSimulator: agents who move on the navmeshes of a world, and the episodes they are in. It draws nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_batchnav.env.world import World
from gym_batchnav.state import Action, rows_of
from gym_batchnav.system.process import claim_process


class BatchSimulator:
    """Moves agents at once and keeps their episodes.

    It has the N agents of some consecutive rows of a world; all indices are counted from the first of them.
    Time passes in the world, and its plan restarts, with the simulator that has row 0 and with no other.

    Args:
        world: The scenes, the episodes and all agents.
        rows: Which agents; all if not given.
        forward_step: Metres of MOVE_FORWARD.
        turn_angle: Radians of a turn.
        sliding: Slide along walls; False stops at them.

    Attributes:
        agents: AgentState, the rows of the world's.
        episodes: EpisodeState, the rows of the world's.
        memory: Memory, the rows of the world's.
        begun: [N] bool, who is in an episode of the present plan of scenes and episodes.
        schedule: Which episode comes next; the world's.
        first: Index of the first agent in the world.
    """

    def __init__(
        self,
        world: World,
        rows: range | None = None,
        *,
        forward_step: float = 0.25,
        turn_angle: float = np.pi / 18,
        sliding: bool = True,
    ) -> None:
        rows = range(len(world.begun)) if rows is None else rows
        self.world, self.first, self.num_agents = world, rows.start, len(rows)
        self.schedule = world.schedule
        self.forward_step, self.turn_angle, self.sliding = forward_step, turn_angle, sliding
        self.agents, self.episodes = rows_of(world.agents, rows), rows_of(world.episodes, rows)
        self.memory = world.memory.rows(rows)
        self.begun = world.begun[rows.start : rows.stop]
        self._moved, self._collided = np.zeros(len(rows), np.float32), np.zeros(len(rows), bool)

    def split(self, count: int) -> tuple[BatchSimulator, ...]:
        """Simulators of ``count`` equal parts of the agents, in their order."""
        size = self.num_agents // count
        return tuple(
            BatchSimulator(
                self.world,
                range(first, first + size),
                forward_step=self.forward_step,
                turn_angle=self.turn_angle,
                sliding=self.sliding,
            )
            for first in range(self.first, self.first + self.num_agents, size)
        )

    def seed(self, seeds: Sequence[int | None], mask: np.ndarray) -> None:
        """Start the plans of scenes and episodes again.

        Args:
            seeds: N seeds, 0 to 2**64 - 1; an agent whose seed is None goes on with its plan.
            mask: [N] bool, the agents to seed. If all are given a seed, the world's plan begins anew.
        """
        for index in np.nonzero(mask)[0].tolist():
            seed = seeds[index]
            if seed is not None:
                self.episodes.seed[index] = seed
                self.episodes.count[index] = 0
        if mask.all() and None not in seeds and self.first == 0:
            self.begun[:] = False  # the slots may come to hold other scenes than those that the agents stand in
            self._restart(self.schedule.order, int(self.episodes.seed[0]))

    def change_order(self, order: str) -> None:
        """Begin episodes anew in an order of the schedule, which all agents of the world share.

        Raises:
            ValueError: The scenes do not allow it, or these agents are not the first and follow the others' order.
        """
        if self.first == 0:
            self._restart(order)
        elif order != self.schedule.order:
            raise ValueError(
                f"episode_order={order!r} in a part of a batch: reset the first part with it before the others"
            )

    def advance(self) -> None:
        """Let scenes change if it is their turn; the pictures of the last step have been read."""
        if self.first == 0:
            self.world.advance()
        else:
            self.world.follow()

    def move(self, actions: np.ndarray, active: np.ndarray) -> None:
        """Turn or move the active agents and bring their episodes up to date.

        Args:
            actions: [N] int64, 0 to 3.
            active: [N] bool; the others stand still and nothing is counted for them.
        """
        claim_process("step")
        agents, episodes = self.agents, self.episodes
        self.world.navmeshes.step(
            actions,
            agents.slot,
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
        episodes.stopped[:] = active & (actions == Action.STOP)
        episodes.num_steps[:] += active
        episodes.num_collisions[:] += active & self._collided
        episodes.path_length[:] += np.where(active, self._moved, 0)
        episodes.previous_distance[:] = episodes.distance
        self._update_distance()

    def begin_episodes(self, indices: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Begin an episode for some agents.

        Args:
            indices: [M] int, the agents, ascending.
            wanted: [M] int, the episodes to run, numbered through all scenes, or where scenes rotate, in the scene that
                each agent enters; None takes the next ones of the schedule.

        Returns:
            Those of the agents for whom there was an episode.

        Raises:
            ValueError: a scene has fewer episodes; then nothing has changed.
        """
        if len(indices) == 0:
            return indices
        self.world.follow()
        state = self.episodes
        if wanted is None:
            slot, row, found = self.schedule.draw(self.first + indices, state.seed[indices], state.count[indices])
        else:
            slot, row = self._locate(indices, wanted)
            found = np.ones(len(indices), bool)
        self.begun[indices], state.valid[indices], state.done[indices] = True, found, False
        state.count[indices] += found
        indices, slot, row = indices[found], slot[found], row[found]
        for one in np.unique(slot):
            here, rows = indices[slot == one], row[slot == one]
            navigation = self.world.at(one)
            episodes = navigation.episode_set
            self.agents.slot[here] = one
            self._place(here, navigation.start_polygon[rows], episodes.start[rows], episodes.heading[rows])
            state.episode[here], state.goal_index[here] = rows, episodes.goal_index[rows]
            state.goal[here] = episodes.goals[episodes.goal_index[rows]]
            state.start[here], state.start_heading[here] = episodes.start[rows], episodes.heading[rows]
            for distance in (state.start_distance, state.previous_distance, state.distance):
                distance[here] = episodes.distance[rows]
        state.path_length[indices] = 0
        state.num_steps[indices] = state.num_collisions[indices] = 0
        state.stopped[indices] = False
        self.world.occupy()
        return indices

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
        scene = self.agents.slot[indices]
        snapped, polygon = np.empty((len(indices), 3), np.float32), np.empty(len(indices), np.int32)
        for slot in np.unique(scene):
            here = scene == slot
            navigable = self.world.navmesh(slot).is_navigable(position[here])
            if not navigable.all():
                point = position[here][~navigable][0]
                raise ValueError(f"{point} is not navigable in {self.world.library.name(slot)!r}: snap it first")
            snapped[here], polygon[here] = self.world.navmesh(slot).snap_with_polygon(position[here])
        self._place(indices, polygon, snapped, heading)
        self._update_distance()

    def shortest_path_actions(self, goal_radius: float) -> np.ndarray:
        """What the greedy shortest-path follower would do now: [N] int64 actions."""
        claim_process("shortest_path_actions")
        agents = self.agents
        return self.world.navmeshes.next_action(
            agents.slot,
            agents.polygon,
            agents.position,
            agents.heading,
            self.episodes.goal_index,
            forward_step=self.forward_step,
            turn_angle=self.turn_angle,
            goal_radius=goal_radius,
            sliding=self.sliding,
        )

    def _restart(self, order: str, seed: int | None = None) -> None:
        """Restart the world's plan: whoever else is in it has to begin anew."""
        self.world.restart(order, seed)
        self.world.begun[self.num_agents :] = False

    def _locate(self, indices: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slots and rows of the episodes ``wanted`` [M] by the agents ``indices`` [M]."""
        world = self.world
        if not world.library.rotates:
            return world.schedule.locate(wanted)
        slot = world.schedule.slot(self.first + indices, self.episodes.count[indices])
        sizes = np.array([len(world.episode_set(one)) for one in slot.tolist()])
        if (wanted >= sizes).any():
            index = int((wanted >= sizes).argmax())
            raise ValueError(
                f"episode {wanted[index]} for environment {indices[index]}: scene {world.library.name(slot[index])!r}, "
                f"which it enters, has {sizes[index]}"
            )
        return slot, wanted

    def _update_distance(self) -> None:
        """Geodesic distance of every agent to its goal."""
        agents, goal, out = self.agents, self.episodes.goal_index, self.episodes.distance
        self.world.navmeshes.distance(agents.slot, agents.polygon, agents.position, goal, out)

    def _place(self, indices: np.ndarray, polygon: np.ndarray, position: np.ndarray, heading: np.ndarray) -> None:
        """Write the poses of agents ``indices`` [M]."""
        self.agents.polygon[indices] = polygon
        self.agents.position[indices] = position
        self.agents.heading[indices] = heading
