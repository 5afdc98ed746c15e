"""The agents of an evaluation: policy files, agents by name, and the blind agent beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gym_batchnav.evaluation.agents import Agent
from gym_batchnav.evaluation.named_agents import FOLLOWER, RANDOM, agent_file, named_agent
from gym_batchnav.library.sources import assets_dir
from gym_batchnav.train.policy_agent import PolicyAgent
from gym_batchnav.train.policy_file import PolicyAbout, load_policy

SHIPPED_POLICY = "pointnav_depth.safetensors"
SHIPPED_BLIND = "pointnav_blind.safetensors"
POLICY = "policy"
BLIND = "blind"
BESIDE = (BLIND, RANDOM, FOLLOWER)  # by default; they see no images
_OF_POLICIES = re.compile(rf"{POLICY}(_\d+)?")  # the names of the evaluated policy's runs


@dataclass(frozen=True, slots=True, eq=False)
class ChosenAgent:
    """An agent, and for that of a policy file the file with its description."""

    agent: Agent
    file: Path | None = None
    about: PolicyAbout | None = None


def choose_agent(
    name: str, seed: int, sample_seed: int | None = None, *, allow_mismatch: bool = False, option: str = "policy"
) -> ChosenAgent:
    """Return the agent of a policy file or of a name; see ``named_agent``.

    Args:
        name: Path of a policy file, name of a shipped policy, or name of an agent.
        seed: Seed of random actions.
        sample_seed: Sample the actions of a policy file with this seed; None takes the most likely ones.
        allow_mismatch: Let a policy act in environments with other settings than those of its training.
        option: The keyword that gave the name, for errors.

    Raises:
        ValueError: There is no such agent, or the file is not a policy.
        FileNotFoundError: There is no such file.
    """
    path = agent_file(name)
    if path is not None:
        policy, about = load_policy(path)
        return ChosenAgent(PolicyAgent(policy, sample_seed, about=about, allow_mismatch=allow_mismatch), path, about)
    return ChosenAgent(named_agent(name, seed, option))


def choose_policies(
    names: Sequence[str], seed: int, sample_seed: int | None, allow_mismatch: bool
) -> dict[str, ChosenAgent]:
    """Return the runs of the evaluated policy: ``policy``, or ``policy_1``, ``policy_2`` and so on.

    Raises:
        ValueError: There is no such agent, files and named agents are mixed, or the policies of several files were
            trained with different environment settings.
        FileNotFoundError: There is no such file.
    """
    chosen = [choose_agent(name, seed, sample_seed, allow_mismatch=allow_mismatch) for name in names]
    first = chosen[0].about
    for name, one in zip(names, chosen, strict=True):
        if (one.about is None) != (first is None):
            raise ValueError(
                f"policies={list(names)!r}: they are runs of one method, so pass policy files alone or named agents "
                "alone; other agents belong to agents="
            )
        lines = one.about.differences(first) if one.about is not None and first is not None else []
        if lines and not allow_mismatch:
            raise ValueError(
                f"policies=: '{name}' was trained with other environment settings than '{names[0]}': "
                f"{'; '.join(lines)}. Evaluate them one by one, or pass allow_mismatch=True"
            )
    labels = [POLICY] if len(names) == 1 else [f"{POLICY}_{number}" for number in range(1, len(names) + 1)]
    return dict(zip(labels, chosen, strict=True))


def choose_beside(
    names: Sequence[str],
    blind_file: Path | None,
    about: PolicyAbout | None,
    seed: int,
    sample_seed: int | None,
    allow_mismatch: bool,
    note: Callable[[str], None],
) -> dict[str, ChosenAgent]:
    """Return the agents that act in the same episodes, by name.

    Args:
        names: ``"blind"``, names of ``choose_agent``, and policy files, which are then called by their file's name.
        blind_file: The blind policy; None takes the shipped one, if it was trained in the same world.
        about: The description of the evaluated policy, if it comes from a file.
        seed: Seed of random actions.
        sample_seed: See ``choose_agent``.
        allow_mismatch: Do not compare settings of trainings.
        note: Called with a message if the shipped blind agent is left out.

    Raises:
        ValueError: There is no such agent, two have the same name, or the blind policy does not fit.
        FileNotFoundError: There is no such file.
    """
    if blind_file is not None and BLIND not in names:
        raise ValueError(f"blind_file='{blind_file}': also name 'blind' in agents=")
    chosen: dict[str, ChosenAgent] = {}
    for name in names:
        one = (
            _choose_blind(blind_file, about, sample_seed, allow_mismatch, note)
            if name == BLIND
            else choose_agent(name, seed, sample_seed, allow_mismatch=allow_mismatch, option="agents")
        )
        if one is None:
            continue
        label = name if one.file is None or name == BLIND else one.file.name
        if label in chosen or _OF_POLICIES.fullmatch(label):
            raise ValueError(f"agents={list(names)!r}: {label!r} is there twice: give the file another name")
        chosen[label] = one
    return chosen


def shipped(name: str) -> Path | None:
    """Return the path of a shipped file; None if it is missing."""
    path = assets_dir() / name
    return path if path.is_file() else None


def _choose_blind(
    blind_file: Path | None,
    about: PolicyAbout | None,
    sample_seed: int | None,
    allow_mismatch: bool,
    note: Callable[[str], None],
) -> ChosenAgent | None:
    """Return the blind agent; None if there is none, or the shipped one does not fit."""
    file = blind_file or shipped(SHIPPED_BLIND)
    if file is None:
        return None
    policy, found = load_policy(file)
    try:
        _check_blind(file, found, about, allow_mismatch)
    except ValueError as error:
        if blind_file is not None:
            raise
        note(f"Without the shipped blind agent: {error}")
        return None
    # A named agent brings no description to compare with, so the agent itself compares the environment.
    compared = about is None and not allow_mismatch
    return ChosenAgent(PolicyAgent(policy, sample_seed, about=found, allow_mismatch=not compared), file, found)


def _check_blind(file: Path, blind: PolicyAbout, about: PolicyAbout | None, allow_mismatch: bool) -> None:
    """Raise ValueError unless a policy is blind and has the other one's settings, except for the camera."""
    if blind.kind != "blind":
        raise ValueError(f"blind_file='{file}': it holds a policy of kind {blind.kind!r}; pass one of kind 'blind'")
    lines = [] if about is None else blind.differences(about)
    if lines and not allow_mismatch:
        raise ValueError(
            f"blind_file='{file}': it was trained with other environment settings than policy_file=: in the policy's "
            f"{'; '.join(lines)}. Compare policies with the same settings, or pass allow_mismatch=True"
        )
