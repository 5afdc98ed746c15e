"""PettingZoo: one world of agents as a ParallelEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from gym_batchnav.adapters.world import Infos, OneWorld, Step
from gym_batchnav.env.arguments import RESET_OPTIONS
from gym_batchnav.system.extras import needs_extra

with needs_extra("pettingzoo", "the adapter to PettingZoo"):
    from pettingzoo import ParallelEnv


class PettingZooEnv(OneWorld, ParallelEnv):
    """The agents of one world as a ParallelEnv of PettingZoo; ``PettingZooEnv.make(agents_per_world=4)`` makes both.

    The agents are ``"agent_0"``, ``"agent_1"``, ... An agent leaves ``agents`` when its own episode ends; its info then
    holds the measures of that episode, such as ``success``. If the number of agents is drawn for each episode,
    ``agents`` holds those that take part after a reset.

    Args:
        env: A BatchNavEnv of one world with autoreset mode ``"disabled"``, or a Gymnasium vector wrapper around one.

    Raises:
        ValueError: It is not a batch, has several worlds, or has another autoreset mode.
    """

    _library = "PettingZoo"

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "name": "batchnav_v0", "is_parallelizable": True}

    @property
    def agents(self) -> list[str]:
        """The names of those whose own episodes have not ended."""
        return self.acting

    def observation_space(self, agent: str) -> gymnasium.Space:
        """Return the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Begin an episode of the world, see ``OneWorld.begin``; as in PettingZoo, unknown options are ignored."""
        known = {name: value for name, value in (options or {}).items() if name in RESET_OPTIONS}
        return self.begin(seed, known)

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Act with all agents that are left, see ``OneWorld.act``."""
        return self.act(actions)
