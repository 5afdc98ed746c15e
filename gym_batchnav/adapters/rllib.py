"""RLlib: one batch per env runner, with different episodes in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gym_batchnav.adapters.base import Adapter


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
        scaled: Any = seed * self.num_envs if isinstance(seed, int) else seed
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
