"""Batches for RLlib's env runners, each with episodes of its own and in the one mode that RLlib counts right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gym_batchnav.adapters.requirements import check_batch


class RLlibEnv(VectorWrapper):
    """A batch that RLlib's env runners count right.

    RLlib gives env runner w the seed s + w, and environment i of a batch seeded s has the seed s + i: neighbours would
    run nearly the same episodes. A batch of N is therefore reset with N times the seed that RLlib gives.

    Args:
        env: A BatchNavEnv with autoreset mode ``"next_step"``, which may be wrapped.

    Raises:
        ValueError: It is no batch, or has another autoreset mode, of which RLlib would record wrong episodes unnoticed.
    """

    def __init__(self, env: VectorEnv) -> None:
        check_batch(env, AutoresetMode.NEXT_STEP, "RLlib")
        super().__init__(env)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment; seeds of one number are spread so that env runners share none."""
        spread: Any = seed * self.num_envs if isinstance(seed, int) else seed
        return self.env.reset(seed=spread, options=options)


def make_batch(config: Mapping[str, Any]) -> RLlibEnv:
    """Create the batch of an env runner: ``ray.tune.register_env("batchnav", make_batch)``.

    Args:
        config: RLlib's ``env_config``: keywords of BatchNavEnv, and ``id``, ``"BatchNav/PointNavScan-v0"`` if not
            given, whose observations RLlib's own models take.

    Raises:
        ValueError: RLlib asks for single environments, or the keywords are wrong.
    """
    keywords = dict(config)
    if "num_envs" not in keywords:
        raise ValueError(
            "RLlib asks for single environments: config.env_runners(gym_env_vectorize_mode='vector_entry_point') takes "
            "a batch"
        )
    name = keywords.pop("id", "BatchNav/PointNavScan-v0")
    return RLlibEnv(gymnasium.make_vec(f"gym_batchnav:{name}", **keywords))
