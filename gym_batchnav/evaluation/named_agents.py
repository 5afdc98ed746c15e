"""Agents by name: the follower, the mapper, random actions, or your own as ``module:name``; and files of policies."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path

from gym_batchnav.evaluation.agents import Agent, RandomAgent, ShortestPathAgent, as_agent
from gym_batchnav.library.sources import shipped_policies

FOLLOWER = "follower"
MAPPER = "mapper"
RANDOM = "random"
NAMES = (FOLLOWER, MAPPER, RANDOM)
_MAPPER = "gym_batchnav.mapping.agent:MapAgent"
_IN_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_in_module(name: str) -> bool:
    """Return whether a name has the form ``module:name``, where modules may be dotted."""
    return _IN_MODULE.fullmatch(name) is not None


def agent_file(name: str) -> Path | None:
    """Return the policy file of a path or of a shipped policy's name, such as ``pointnav_depth``; None for other names.

    Names come first: files called ``random`` or ``pointnav_depth`` are reached as ``./random`` and
    ``./pointnav_depth``.
    """
    return shipped_policies().get(name) or user_file(name)


def user_file(name: str) -> Path | None:
    """Return the user's own policy file of a path; None for the names of agents and shipped policies."""
    if name in NAMES or name in shipped_policies():
        return None
    path = Path(os.path.expanduser(name))
    return path if path.is_file() else None


def check_name(name: str, option: str = "policy") -> None:
    """Raise ValueError unless a name is that of an agent, a policy file, a shipped policy or of an object in a module.

    The error names the option that gave the name.
    """
    if name not in NAMES and not is_in_module(name) and agent_file(name) is None:
        raise ValueError(
            f"{option}={name!r} is neither a known name nor a file: pass 'follower', 'mapper', 'random', a policy "
            f"file, a shipped policy ({', '.join(shipped_policies())}), or 'module:name'"
        )


def named_agent(name: str, seed: int = 0, option: str = "policy") -> Agent:
    """Return the agent of a name.

    Args:
        name: ``"follower"`` (shortest paths), ``"mapper"`` (paths on a map of what it sees), ``"random"``, or
            ``"module:name"`` of an Agent, of a class of agents, or of a function from observations to actions [N].
            Importing a module runs its code.
        seed: Seed of random actions.
        option: The keyword that gave the name.

    Raises:
        ValueError: The agent is unknown.
    """
    if name == FOLLOWER:
        return ShortestPathAgent()
    if name == RANDOM:
        return RandomAgent(seed)
    if name == MAPPER:
        return _from_module(_MAPPER, option)
    check_name(name, option)
    return _from_module(name, option)


def _from_module(name: str, option: str) -> Agent:
    """Return the agent or function ``module:name``; modules in the working directory are found, too."""
    module, _, attribute = name.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{option}={name!r}: {error}: pass 'module:name' of a module that can be imported") from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    if not hasattr(imported, attribute):
        raise ValueError(f"{option}={name!r}: module {module!r} has no {attribute!r}: check the name after the colon")
    found = getattr(imported, attribute)
    try:
        return as_agent(found() if isinstance(found, type) else found)
    except TypeError as error:
        raise ValueError(f"{option}={name!r}: {error}") from error
