"""DiscreteActions: STOP, MOVE_FORWARD and turns by fixed amounts, numbered as in Habitat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from gym_batchnav.actions.api import Actions
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import NUM_ACTIONS, Action, AgentState, Commands
from gym_batchnav.system.numbers import check_between

_STOP = int(Action.STOP)  # NumPy compares arrays with plain integers faster


@dataclass(frozen=True, slots=True)
class DiscreteActions(Actions):
    """0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT, 3 TURN_RIGHT, and with a look angle 4 LOOK_UP and 5 LOOK_DOWN.

    A move is one step of Habitat's ``try_step``, whatever its length.

    Attributes:
        forward_step: Length of MOVE_FORWARD, metres.
        turn_angle_deg: Angle of a turn, degrees.
        look_angle_deg: Angle of LOOK_UP and LOOK_DOWN, degrees; None for agents without these two actions. The pitch
            stays within 90 degrees up and down.

    Raises:
        ValueError: A step is not from 0.001 to 100 m, or an angle not from 0.1 to 180 degrees.
    """

    forward_step: float = 0.25
    turn_angle_deg: float = 10.0
    look_angle_deg: float | None = None

    def __post_init__(self) -> None:
        check_between(0.001, 100.0, forward_step=self.forward_step)
        check_between(0.1, 180.0, turn_angle_deg=self.turn_angle_deg)
        if self.look_angle_deg is not None:
            check_between(0.1, 180.0, look_angle_deg=self.look_angle_deg)

    @property
    def turn_angle(self) -> float:
        """Angle of a turn, radians."""
        return float(np.radians(self.turn_angle_deg))

    @property
    def num_actions(self) -> int:
        """The number of actions, 4 or 6."""
        return NUM_ACTIONS if self.look_angle_deg is None else len(Action)

    @property
    def space(self) -> Discrete:
        """Gymnasium's space of one agent's action."""
        return Discrete(self.num_actions)

    def validate(self, actions: Any, num_agents: int) -> np.ndarray:
        """Return actions as int64 [N]; ValueError for another shape, dtype or value."""
        actions = np.asarray(actions)
        if actions.shape != (num_agents,) or actions.dtype.kind not in "iu":
            raise ValueError(f"actions are {actions.dtype} {actions.shape}: pass integers ({num_agents},)")
        wrong = (actions < 0) | (actions >= self.num_actions)
        if wrong.any():
            index = int(wrong.argmax())
            choices = [f"{action.value} {action.name}" for action in tuple(Action)[: self.num_actions]]
            listed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
            raise ValueError(f"actions[{index}] = {actions[index]}: choose {listed}")
        return actions.astype(np.int64, copy=False)

    def decode(self, actions: np.ndarray) -> Commands:
        """Return the motion that actions [N] int64 command."""
        turn, forward, side, look = _motions(self).take(actions, axis=1)
        return Commands(turn, forward, side, actions == _STOP, None if self.look_angle_deg is None else look)

    def follow(
        self, navmeshes: NavMeshAgents, agents: AgentState, goal_index: np.ndarray, goal_radius: float, sliding: bool
    ) -> np.ndarray:
        """Return the actions [N] int64 of the greedy follower of the shortest path; it never looks up or down."""
        return navmeshes.next_action(
            agents.slot,
            agents.polygon,
            agents.position,
            agents.heading,
            goal_index,
            forward_step=self.forward_step,
            turn_angle=self.turn_angle,
            goal_radius=goal_radius,
            sliding=sliding,
        )


@lru_cache(maxsize=16)
def _motions(kind: DiscreteActions) -> np.ndarray:
    """Return the motion of each action: turn, forward, side and look in rows [4, 6] float64, in radians and metres."""
    motions = np.zeros((4, len(Action)))
    motions[0, [Action.TURN_LEFT, Action.TURN_RIGHT]] = kind.turn_angle, -kind.turn_angle
    motions[1, Action.MOVE_FORWARD] = kind.forward_step
    if kind.look_angle_deg is not None:
        motions[3, [Action.LOOK_UP, Action.LOOK_DOWN]] = np.radians([kind.look_angle_deg, -kind.look_angle_deg])
    return motions
