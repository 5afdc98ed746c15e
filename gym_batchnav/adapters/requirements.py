"""What adapters ask of the batch they are given."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv


def check_batch(env: Any, mode: AutoresetMode, library: str) -> None:
    """Refuse what an adapter cannot drive.

    Args:
        env: A vector environment, which may be wrapped.
        mode: The autoreset mode that the library counts episodes right with.
        library: Its name, for the message.

    Raises:
        ValueError: It is no vector environment or resets itself in another mode; the message says how to make one.
    """
    name = mode.name.lower()
    made_as = env.spec.id if isinstance(env, VectorEnv) and env.spec is not None else "BatchNav/PointNav-v0"
    remedy = f"gymnasium.make_vec({made_as!r}, num_envs=..., autoreset_mode={name!r})"
    if not isinstance(env, VectorEnv):
        raise ValueError(f"{library} is given {type(env).__name__}: its adapter takes a batch, {remedy}")
    found = env.metadata.get("autoreset_mode")
    if found != mode:
        given = found.name.lower() if isinstance(found, AutoresetMode) else found
        raise ValueError(f"{library} needs autoreset_mode={name!r}, this batch has {given!r}: {remedy}")
