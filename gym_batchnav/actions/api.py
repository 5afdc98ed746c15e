"""The interface of actions: which actions an agent has, and the motion that each of them commands.

Pass an object of a class like those in ``actions.discrete`` and ``actions.continuous`` to an environment as
``actions=``. Write your own as a frozen dataclass that inherits ``Actions``: batches may share it, so it must not store
anything about a run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import gymnasium
import numpy as np

from gym_batchnav.episodes.samplers import EpisodeSampler
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import AgentState, Commands
from gym_batchnav.system.compilation import Workload

MAX_AMOUNT = 1e4  # metres or radians: the greatest motion in a step
MIN_PART = 1e-3  # metres: the shortest part of a long motion
MAX_PITCH = np.pi / 2  # radians: no agent looks further up or down


class Actions(Protocol):
    """The actions of an agent.

    Attributes:
        space: Gymnasium's space of one agent's action, with a shape and a dtype.
        workload: Compiles the kernels of the agents of ``make_agents``; None for agents on navmeshes.
    """

    workload: ClassVar[Workload | None] = None

    @property
    @abstractmethod
    def space(self) -> gymnasium.Space:
        """Gymnasium's space of one agent's action, with a shape and a dtype."""

    @abstractmethod
    def validate(self, actions: Any, num_agents: int) -> np.ndarray:
        """Return actions as an array [N, *space.shape] of the space's dtype.

        Raises:
            ValueError: The actions have another shape, or one is not in the space; the message names its row.
        """

    @abstractmethod
    def decode(self, actions: np.ndarray) -> Any:
        """Return the motion that validated actions [N, *space.shape] command: finite numbers, and none with STOP.

        It is a ``Commands``, or what the agents of ``make_agents`` perform.
        """

    def check_batch(self, settings: Any, sampler: EpisodeSampler) -> None:
        """Raise ValueError unless agents with these actions can run a task's episodes: by default, those on navmeshes.

        Args:
            settings: The keywords of the batch.
            sampler: Samples the task's episodes.
        """
        if hasattr(sampler, "prepare"):
            raise ValueError(
                f"actions={type(self).__name__}() move walking agents, but the agents of the task's "
                f"{type(sampler).__name__} do not walk: pass actions such as FlightActions(), or choose another task"
            )

    def buffers(self, num_agents: int) -> dict[str, np.ndarray]:
        """Return zeroed arrays [N, ...] of the agents' state in addition to their pose; see ``Component.buffers``."""
        return {}

    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError if the agents cannot continue from restored buffers."""
        return None

    def make_agents(self, num_slots: int, buffers: Mapping[str, np.ndarray]) -> Any:
        """Return the agents that these actions move, in a number of slots: by default on navmeshes.

        Others must have the methods of ``NavMeshAgents`` that a simulator calls: ``set_slot``, ``clear_slot``,
        ``step``, ``distance`` and ``visible_floor``. They keep their state in the batch's ``buffers``, in place.
        """
        return NavMeshAgents(num_slots)

    def follow(
        self, navmeshes: NavMeshAgents, agents: AgentState, goal_index: np.ndarray, goal_radius: float, sliding: bool
    ) -> np.ndarray:
        """Return the actions [N, *space.shape] of the greedy follower of the shortest path.

        Args:
            navmeshes: The navmeshes of the agents' scenes.
            agents: The pose of every agent.
            goal_index: [N] int32, row of the scene's goals.
            goal_radius: Metres; the action is STOP within this distance, and where there is no path.
            sliding: Whether the agents slide along walls.

        Raises:
            NotImplementedError: These actions have no follower.
        """
        raise NotImplementedError(f"{type(self).__name__} has no follow(): write one to use shortest_path_actions()")


def check_commands(commands: Any) -> None:
    """Check motion before it reaches the kernels, which would never end a walk of infinite length.

    Args:
        commands: What ``Actions.decode`` returned.

    Raises:
        ValueError: A number is not finite or exceeds ``MAX_AMOUNT``, and the message names its row; or
            ``longest_part`` is less than ``MIN_PART``.
    """
    if isinstance(commands, Commands) and not commands.longest_part >= MIN_PART:
        raise ValueError(f"decode() returned longest_part={commands.longest_part}: return {MIN_PART:g} m or more")
    for name in ("turn", "forward", "up", "side", "look"):
        amounts = getattr(commands, name, None)
        if amounts is None:
            continue
        wrong = ~(np.abs(amounts) <= MAX_AMOUNT)  # also NaN
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"{name}[{row}] = {amounts[row]}: decode() and the noise must return finite numbers of at most "
                f"{MAX_AMOUNT:g}"
            )


def validate_box(actions: Any, num_agents: int, names: tuple[str, ...]) -> np.ndarray:
    """Return actions whose components lie between -1 and 1 as float32 [N, D].

    Args:
        actions: [N, D] numbers.
        num_agents: N.
        names: The name of each of the D components.

    Raises:
        ValueError: The actions have another shape or dtype, or a component is NaN or not from -1 to 1.
    """
    actions = np.asarray(actions)
    shape = (num_agents, len(names))
    if actions.shape != shape or actions.dtype.kind not in "iuf":
        raise ValueError(
            f"actions are {actions.dtype} {actions.shape}: pass numbers of shape {shape} with the columns "
            f"{', '.join(names)}"
        )
    actions = np.ascontiguousarray(actions, np.float32)
    wrong = ~(np.abs(actions) <= 1)  # also NaN
    if wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        raise ValueError(
            f"actions[{row}, {column}] = {actions[row, column]} ({names[column]}): pass numbers from -1 to 1, or wrap "
            "the environment in gymnasium.wrappers.vector.ClipAction"
        )
    return actions
