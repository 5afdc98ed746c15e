"""People and dogs that walk about: shortest paths to one goal after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.episodes.draws import step_uniform
from gym_batchnav.system.numbers import check_between, check_counts, is_number
from gym_batchnav.worlds.api import BodyMotion, MovingBodies, check_body

ARRIVED = 0.3  # metres; then a body gets its next goal
AVOID = np.radians(75)  # a body that was stopped turns to the right by up to this
GIVE_UP = 0.1  # probability, per step in which it was stopped, that a body goes elsewhere


@dataclass(frozen=True, slots=True)
class People(MovingBodies):
    """Bodies that walk along shortest paths, at a speed that each of them draws for an episode.

    One that was stopped by another body keeps to the right for a step, or goes elsewhere: in narrow places nobody can
    pass.

    Attributes:
        num: Number of bodies per world.
        speed: Least and greatest speed, metres per second. A step lasts as long as the agents' actions say
            (``time_step``), and 0.25 s with discrete actions.
        pause: Probability of standing still in a step, 0 to 0.95.
        shape: ``"person"``, ``"dog"`` or ``"robot"``.
        radius: Of the disc that blocks others, metres.

    Raises:
        ValueError: A value is out of its range.
    """

    num: int = 4
    speed: tuple[float, float] = (0.6, 1.3)
    pause: float = 0.0
    shape: str = "person"
    radius: float = 0.2

    is_fixed = False

    def __post_init__(self) -> None:
        check_counts(num=self.num)
        check_body(self.shape, self.radius)
        check_between(0.0, 0.95, pause=self.pause)
        are_numbers = np.shape(self.speed) == (2,) and all(map(is_number, self.speed))
        if not are_numbers or not 0 < self.speed[0] <= self.speed[1] <= 10:
            raise ValueError(
                f"speed={self.speed}: pass the least and the greatest speed as a tuple, above 0 and at most 10 m/s"
            )

    def move(self, motion: BodyMotion) -> None:
        """Walk on, and choose new goals for those that have arrived."""
        state = motion.state
        rows = motion.worlds
        columns = np.arange(*motion.columns.indices(state.present.shape[1]))
        world, column = (grid.ravel() for grid in np.meshgrid(rows, columns, indexing="ij"))
        steps = state.num_steps[rows]
        draws = step_uniform(motion.keys[rows], steps, f"people-{columns[0]}", 4 * len(columns))
        draws = draws.reshape(-1, 4)
        first = step_uniform(motion.keys[rows], np.zeros_like(steps), f"speed-{columns[0]}", len(columns)).ravel()
        length = (self.speed[0] + first * (self.speed[1] - self.speed[0])) * motion.seconds
        walks = motion.navmeshes.next_walk(
            np.ascontiguousarray(motion.slots[world], np.int32),
            state.polygon[world, column],
            state.position[world, column],
            state.goal_index[world, column],
            longest=self.speed[1] * motion.seconds,  # the same whatever other worlds do
        )
        arrived = ~((ARRIVED < walks.distance) & (walks.distance < np.inf))  # or without a path
        stopped = state.touched[world, column]
        changes = arrived | (stopped & (draws[:, 3] < GIVE_UP))
        if changes.any():
            chosen = world[changes], column[changes]
            state.goal_index[chosen] = motion.new_goals(*chosen, draws[changes, 0])
            state.num_goals[chosen] += 1
        direction = walks.direction - np.where(stopped, AVOID * draws[:, 1], 0.0)
        rests = arrived | (draws[:, 2] < self.pause)
        forward = np.where(rests, 0.0, np.minimum(length, np.where(stopped, length, walks.length)))
        turn = np.where(rests, 0.0, direction - state.heading[world, column])
        motion.walk(world, column, turn, forward)
