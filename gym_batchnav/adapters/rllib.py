"""RLlib: one batch per env runner, with different episodes in each; or worlds of several agents by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gym_batchnav.adapters.base import Adapter
from gym_batchnav.adapters.world import Infos, OneWorld, Step
from gym_batchnav.system.extras import needs_extra

with needs_extra("rllib", "the adapter to RLlib"):
    from ray.rllib.env.multi_agent_env import MultiAgentEnv

MEASURES = ("success", "spl")
_RUNNER_SEEDS = 2**32  # between the seeds of two env runners


class RLlibEnv(Adapter, VectorWrapper):
    """A batch in the autoreset mode in which RLlib's env runners count correctly; ``RLlibEnv.make`` makes both.

    RLlib gives env runner w the seed s + w, and environment i of a batch seeded s has the seed s + i, so neighbouring
    env runners would run nearly the same episodes. A batch of N is therefore reset with N times RLlib's seed.

    Args:
        env: A BatchNavEnv with autoreset mode ``"next_step"``, which may be wrapped.

    Raises:
        ValueError: It is not a batch, or has another autoreset mode, in which RLlib silently records wrong episodes.
    """

    _library = "RLlib"
    _mode = AutoresetMode.NEXT_STEP

    def __init__(self, env: VectorEnv) -> None:
        self._check_batch(env)
        VectorWrapper.__init__(self, env)

    @classmethod
    def make(cls, num_envs: int, id: str = "BatchNav/PointNavScan-v0", **keywords: Any) -> RLlibEnv:
        """Make a batch and its adapter; by default with observations of one array, which RLlib's own models take."""
        return super().make(num_envs, id, **keywords)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment; an integer seed is multiplied by N, see the class."""
        scaled: Any = int(seed) * self.num_envs if isinstance(seed, (int, np.integer)) else seed
        return self.env.reset(seed=scaled, options=options)


def make_batch(config: Mapping[str, Any]) -> RLlibEnv:
    """Create the batch of an env runner: ``ray.tune.register_env("batchnav", make_batch)``.

    Args:
        config: RLlib's ``env_config``: keywords of ``RLlibEnv.make``.

    Raises:
        ValueError: RLlib asks for single environments, or the keywords are wrong.
    """
    keywords = dict(config)
    if "num_envs" not in keywords:
        raise ValueError(
            "RLlib asks for single environments: set config.env_runners(gym_env_vectorize_mode='vector_entry_point')"
        )
    return RLlibEnv.make(**keywords)


def log_measures(*, episode: Any, metrics_logger: Any, **_: Any) -> None:
    """Log success and SPL of an episode that ended: ``config.callbacks(on_episode_end=log_measures)``.

    ``"success"`` and ``"spl"`` of the results of ``algorithm.train()["env_runners"]`` are sums over the episodes that
    ended in that iteration, in all env runners. Divided by ``"num_episodes"`` they are exact means.
    """
    measures = episode.get_infos(-1)
    for name in MEASURES:
        metrics_logger.log_value(name, float(measures[name]), reduce="sum")


class RLlibWorld(OneWorld, MultiAgentEnv):
    """One world as a MultiAgentEnv of RLlib, for policies that differ between agents.

    The agents are ``"agent_0"``, ``"agent_1"``, ... An agent gets no more observations after its own episode has ended;
    its last info then holds the measures of that episode. If all agents share one policy, RLlibEnv is much faster: it
    steps many worlds at once.

    Args:
        env: A BatchNavEnv of one world with autoreset mode ``"disabled"``, or a Gymnasium vector wrapper around one.
        env_runner: Number of RLlib's env runner. RLlib gives world i of env runner w the seed s + w + i; those of
            different env runners must not run the same episodes.

    Raises:
        ValueError: It is not a batch, has several worlds, or has another autoreset mode.
    """

    _library = "RLlib's MultiAgentEnv"

    def __init__(self, env: VectorEnv, env_runner: int = 0) -> None:
        MultiAgentEnv.__init__(self)
        OneWorld.__init__(self, env)
        self.agents = self.possible_agents  # RLlib's check refuses the last step of an agent that is not among these
        self.metadata = dict(env.metadata)
        self.env_runner = env_runner

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Begin an episode of the world, see ``OneWorld.begin``."""
        if isinstance(seed, (int, np.integer)):
            seed = int(seed) + self.env_runner * _RUNNER_SEEDS
        return self.begin(seed, options)

    def step(self, action_dict: Mapping[str, Any]) -> Step:
        """Act with all agents that are left, see ``OneWorld.act``; ``"__all__"`` is whether none is left then."""
        observations, rewards, terminated, truncated, infos = self.act(action_dict)
        if self.acting:
            return observations, rewards, {**terminated, "__all__": False}, {**truncated, "__all__": False}, infos
        if not any(truncated.values()):
            return observations, rewards, {**terminated, "__all__": True}, {"__all__": False}, infos
        # RLlib takes a world for terminated, with all its agents, if each of them has its own flag.
        return observations, rewards, {**terminated, "__all__": False}, {"__all__": True}, infos


def make_world(config: Mapping[str, Any]) -> RLlibWorld:
    """Create a world of an env runner: ``ray.tune.register_env("batchnav_world", make_world)``.

    Args:
        config: RLlib's ``env_config``: keywords of ``RLlibWorld.make``.

    Raises:
        ValueError: A keyword is wrong.
    """
    world = RLlibWorld.make(**config)
    world.env_runner = getattr(config, "worker_index", 0)
    return world
