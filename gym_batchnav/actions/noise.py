"""Actuation noise: the errors of a robot's motion, measured on a LoCoBot."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gym_batchnav.episodes.normal import truncated_normal
from gym_batchnav.state import Commands
from gym_batchnav.system.numbers import check_not_negative

# Noise of a motion forward and of a turn: metres ahead, metres to the right, radians to the left. Proportional
# controller of the LoCoBot in PyRobot (Murali et al. 2019, "PyRobot: An Open-source Robotics Framework for Research and
# Benchmarking", https://pyrobot.org), as in habitat_sim/agent/controls/pyrobot_noisy_controls.py. Please cite PyRobot.
_MOVE_MEAN = np.array([0.017, 0.042, 0.031])
_MOVE_VARIANCE = np.array([0.007, 0.023, 0.026])
_TURN_MEAN = np.array([0.001, 0.005, 0.043])
_TURN_VARIANCE = np.array([0.001, 0.004, 0.017])
_TRUNCATION = 3.0  # standard deviations
_MIN_SHARE = 0.05  # of the intended motion: the robot always moves and turns a little in the right direction
MOVE = 0.25  # metres: a move of this length in a continuous space has the noise of one discrete move
TURN = np.radians(30)  # radians; the same for turns


class ActuationNoise(Protocol):
    """Changes the motion that agents command into the one that their motors perform."""

    num_draws: int  # random numbers per agent and step

    @abstractmethod
    def apply(self, commands: Commands, uniform: np.ndarray, is_discrete: bool) -> Commands:
        """Return the motion that is performed.

        Args:
            commands: The motion commanded.
            uniform: [N, num_draws] float64, random numbers in [0, 1).
            is_discrete: Whether the actions are discrete, so that all moves and all turns have fixed amounts.
        """


@dataclass(frozen=True, slots=True)
class LoCoBotNoise(ActuationNoise):
    """The noise of a LoCoBot with PyRobot's proportional controller, as in Habitat.

    A move is followed by a small turn, and a turn is preceded by a small move. Each component of the noise is normal,
    truncated at three standard deviations, and bounded so that the robot performs at least 5% of the intended motion;
    then it is multiplied by ``multiplier``.

    Discrete actions have the same noise whatever their amounts, as in Habitat. In continuous spaces, mean and variance
    grow with the amount, so that one long motion has about the noise of several short ones: those of a discrete action
    for each 0.25 m and for each 30 degrees. There, the errors change the speeds of an arc, and a waypoint is reached by
    a turn, a move and a small turn. STOP and looking up and down have no noise.

    Attributes:
        multiplier: Factor of the noise; 0.5 in the Habitat Challenges 2020 and 2021.

    Raises:
        ValueError: The multiplier is negative or not a number.
    """

    multiplier: float = 0.5

    num_draws = 3

    def __post_init__(self) -> None:
        check_not_negative(multiplier=self.multiplier)

    def apply(self, commands: Commands, uniform: np.ndarray, is_discrete: bool) -> Commands:
        """Return the motion that is performed; see ``ActuationNoise``."""
        turn, forward, side = commands.turn, commands.forward, commands.side
        length = np.hypot(forward, side)
        angle = np.abs(turn)
        if is_discrete:
            moves = (length > 0).astype(np.float64)
            turns = (angle > 0).astype(np.float64)
        else:
            moves = length / MOVE
            turns = angle / TURN
        noise = self.multiplier * self._sample(uniform, length, angle, moves, turns)
        # Ahead and to the right are meant in the direction of the motion, also of one backwards.
        ahead, right = np.divide((forward, side), length, out=np.zeros((2, len(turn))), where=length > 0)
        ahead[length == 0] = 1
        performed_forward = forward + noise[:, 0] * ahead - noise[:, 1] * right
        performed_side = side + noise[:, 0] * right + noise[:, 1] * ahead
        error = np.where(turn < 0, -noise[:, 2], noise[:, 2])
        if not commands.is_arc:
            # A command turns first. The robot turns last: by the error, or by everything if it turns on the spot.
            after = np.where(length > 0, error, turn + error)
            performed_forward, performed_side = _turned_right(performed_forward, performed_side, after)
        return commands._replace(turn=turn + error, forward=performed_forward, side=performed_side)

    def _sample(
        self, uniform: np.ndarray, length: np.ndarray, angle: np.ndarray, moves: np.ndarray, turns: np.ndarray
    ) -> np.ndarray:
        """Return noise [N, 3], metres ahead and to the right and radians, of intended motions and turns (positive).

        ``moves`` and ``turns`` are how often the noise of a move and of a turn applies; ``uniform`` is [N, 3].
        """
        mean = moves[:, None] * _MOVE_MEAN + turns[:, None] * _TURN_MEAN
        deviation = np.sqrt(moves[:, None] * _MOVE_VARIANCE + turns[:, None] * _TURN_VARIANCE)
        bound = np.full_like(mean, -np.inf)
        bound[:, 0] = np.where(length > 0, -(1 - _MIN_SHARE) * length, -np.inf)
        bound[:, 2] = np.where(angle > 0, -(1 - _MIN_SHARE) * angle, -np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):  # no motion has no deviation
            low = np.fmax((bound - mean) / deviation, -_TRUNCATION)
        return mean + deviation * truncated_normal(uniform, low, _TRUNCATION)


def _turned_right(forward: np.ndarray, side: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn motions [N] to the right by angles [N]: express them in the frame of agents that turned left."""
    cos = np.cos(angle)
    sin = np.sin(angle)
    return forward * cos - side * sin, side * cos + forward * sin
