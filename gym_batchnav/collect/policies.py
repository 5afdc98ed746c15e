"""The policies that collect: the follower, random actions, a policy file, or a user's function."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_batchnav.evaluation.agents import Acting, Agent, as_agent, env_keywords_of
from gym_batchnav.evaluation.named_agents import agent_file, named_agent
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import sha256_of


@dataclass(frozen=True, slots=True, eq=False)
class ChosenPolicy:
    """A policy that collects."""

    name: str  # in the dataset
    agent: Agent
    env: Mapping[str, Any]  # the keywords of a batch that it needs
    is_file: bool = False  # a policy file, so that ``env`` has all settings of its training


def choose_policy(policy: str | os.PathLike[str] | Acting, seed: int, sample: bool = False) -> ChosenPolicy:
    """Return the policy of a name, or an agent or function as one.

    Args:
        policy: ``"follower"`` (shortest paths), ``"mapper"`` (paths on a map of what it sees), ``"random"``, the path
            of a policy file, the name of a shipped one such as ``"pointnav_depth"``, ``"module:name"`` of an Agent or
            of a function from observations to actions [N] (or a class of agents), or such an object itself.
        seed: Seed of random actions.
        sample: Sample the actions of a policy file.

    Raises:
        ValueError: The policy is unknown, or ``sample`` is given for one that is not a file.
        MissingExtraError: A policy file needs the extra ``[train]``.
    """
    path = agent_file(str(policy)) if isinstance(policy, (str, os.PathLike)) else None
    if path is not None:
        return _from_file(path, seed if sample else None)
    if sample:
        raise ValueError("sample=True: only the actions of a policy file can be sampled; leave it out for others")
    if not isinstance(policy, (str, os.PathLike)):
        named = policy if hasattr(policy, "__qualname__") else type(policy)
        name, agent = f"{named.__module__}:{named.__qualname__}", as_agent(policy)
    else:
        name, agent = str(policy), named_agent(str(policy), seed)
    return ChosenPolicy(name, agent, env_keywords_of(agent))


def _from_file(path: Path, sample_seed: int | None) -> ChosenPolicy:
    with needs_extra("train", "a policy file"):
        from gym_batchnav.train.policy_agent import PolicyAgent
        from gym_batchnav.train.policy_file import load_policy
    policy, about = load_policy(path)
    digest = sha256_of(path)[:16]
    sampled = "" if sample_seed is None else ", sampled"
    agent = PolicyAgent(policy, sample_seed, about=about, allow_mismatch=True)
    return ChosenPolicy(f"{path.name} {digest}{sampled}", agent, about.env_keywords(), is_file=True)
