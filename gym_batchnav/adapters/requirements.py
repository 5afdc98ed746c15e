"""Make the batch that an adapter needs, and check batches that are passed to one."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv


def make_for(
    maker: str, mode: AutoresetMode, num_envs: int, id: str = "BatchNav/PointNav-v0", **keywords: Any
) -> VectorEnv:
    """Make a batch in the autoreset mode that a library counts episodes right with.

    Args:
        maker: The function that was called, such as ``"SB3VecEnv.make"``, for messages.
        mode: The autoreset mode.
        num_envs: N, the number of environments.
        id: An id that Gymnasium knows; ``"module:id"`` imports the module first.
        keywords: Keywords of BatchNavEnv, except ``autoreset_mode``.

    Raises:
        ValueError: ``keywords`` hold an autoreset mode.
    """
    name = mode.name.lower()
    if "autoreset_mode" in keywords:
        raise ValueError(f"{maker} always makes a batch with autoreset_mode={name!r}: leave out autoreset_mode=")
    return gymnasium.make_vec(id, num_envs=num_envs, autoreset_mode=name, **keywords)


def check_batch(env: Any, mode: AutoresetMode, library: str, maker: str) -> None:
    """Raise ValueError unless ``env`` is a batch that an adapter can drive.

    Args:
        env: A vector environment, which may be wrapped.
        mode: The autoreset mode that the library counts episodes right with.
        library: The library's name, for the message.
        maker: The function that makes the right batch, such as ``"SB3VecEnv.make"``, for the message.

    Raises:
        ValueError: ``env`` is no vector environment or has another autoreset mode; the message says how to make one.
    """
    name = mode.name.lower()
    made_as = env.spec.id if isinstance(env, VectorEnv) and env.spec is not None else "BatchNav/PointNav-v0"
    remedy = f"{maker}(num_envs=...) or gymnasium.make_vec({made_as!r}, num_envs=..., autoreset_mode={name!r})"
    if not isinstance(env, VectorEnv):
        raise ValueError(f"{library} is given {type(env).__name__}, but its adapter takes a batch: {remedy}")
    found = env.metadata.get("autoreset_mode")
    if found != mode:
        given = found.name.lower() if isinstance(found, AutoresetMode) else found
        raise ValueError(f"{library} needs autoreset_mode={name!r}, this batch has {given!r}: {remedy}")
