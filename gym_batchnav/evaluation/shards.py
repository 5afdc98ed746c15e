"""Shards of a comparison: one file per part, and the merge that equals a single run bit for bit.

The file is JSON, which keeps 64-bit floats exactly. It holds the settings, checksums of the policies, the protocol card
and every episode of every agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from gym_batchnav.evaluation.comparison import Asked, Comparison, LoadAgent, make_comparison
from gym_batchnav.evaluation.evaluate import COLUMNS, EvaluatedEpisodes, in_order
from gym_batchnav.evaluation.named_agents import NAMES, is_in_module
from gym_batchnav.evaluation.records import checked_value
from gym_batchnav.system.parts import Part
from gym_batchnav.system.storage import sha256_of, write_atomically
from gym_batchnav.system.wording import counted

FILE = "shard.json"
FORMAT = "gym-batchnav evaluation shard 3"
MAX_BYTES = 2**28
# Results do not depend on these. Policies and agents are compared by name and by checksum, since files may move.
_FREE_ARGUMENTS = ("policies", "agents", "num_envs", "renderer")
_FREE_SETTINGS = ("num_envs",)
_FREE_FACTS = ("seeds", "checksum")  # of the card
_FREE_IN_MERGES = ("renderer", "versions")  # facts of the machine that merges, which runs no episode

Columns = dict[str, np.ndarray]
Content = dict[str, Any]  # of a file


def write_shard(comparison: Comparison, shard: Part, out: Path) -> Path:
    """Write the results of a comparison that ran a shard into a folder; return the file."""
    part: Content = {
        "format": FORMAT,
        "shard": str(shard),
        "arguments": asdict(comparison.asked),
        "checksums": checksums_of(comparison),
        "card": comparison.protocol(),
        "results": {
            agent: {name: values.tolist() for name, values in columns_of(episodes).items()}
            for agent, episodes in comparison.results.items()
        },
    }
    write_atomically(out / FILE, json.dumps(part).encode())
    return out / FILE


def columns_of(episodes: EvaluatedEpisodes) -> Columns:
    """Return the columns [E] of episodes, from which ``take_results`` makes them again."""
    return {name: getattr(episodes, name) for name in (*COLUMNS, *episodes.measures)}


def merged(
    folders: Sequence[Path],
    load: LoadAgent,
    policies: Sequence[str] = (),
    agents: Sequence[str] = (),
    renderer: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Return a comparison with the results of all shards, as if one process had run it.

    Args:
        folders: The folders of the shards, in any order.
        load: Loads the agent of a policy file.
        policies: The policy, or all its runs in their order, if they are not where the shards read them.
        agents: The agents to compare with, if files moved or some are in modules, since importing these runs code.
        renderer: Draws the pictures; by default the renderer that the shards were asked to use.
        note: Called with a message if an agent is left out.

    Raises:
        ValueError: A file is not that of a shard, shards differ in anything on which results depend, or an episode is
            missing or has run twice.
        FileNotFoundError: A folder has no shard.json, or a policy file was moved.
    """
    parts = _parts_of(folders)
    # A shard without episodes has not seeded its batch, and the first one has an episode if there is any.
    first = next(part for part in parts.values() if Part.parse(part["shard"]).number == 1)
    comparison = make_comparison(_asked(first["asked"], policies, agents, renderer), load, note)
    try:
        for name, found in checksums_of(comparison).items():
            if found != first["checksums"].get(name):
                option = "policy" if name in comparison.policies else "agents"
                file = comparison.chosen[name].file or name
                raise ValueError(
                    f"{option}='{file}': this is not the file of the agent {name!r} that the shards ran: pass that file"
                )
        here = comparison.protocol()
        lines = differences(first["card"], here, without=_FREE_IN_MERGES)
        if lines:
            raise ValueError(
                f"the shards ran with other scenes or settings than this machine has: {'; '.join(lines)}: join them on "
                "a machine with the same ones"
            )
        rows = {agent: [_columns(part, agent, folder) for folder, part in parts.items()] for agent in first["results"]}
        take_results(comparison, rows)
        comparison.card = first["card"]
    except BaseException:
        comparison.close()
        raise
    return comparison


def take_results(comparison: Comparison, rows: Mapping[str, Sequence[Columns]]) -> None:
    """Set the results of a comparison to episodes that ran elsewhere: by agent, what ``run_episodes`` yielded.

    Raises:
        ValueError: An agent, a measure or an episode is missing, unknown or duplicated.
    """
    expected = comparison.numbers
    if set(rows) != set(comparison.agents):
        raise ValueError(
            f"the shards have results of the agents {', '.join(rows)} instead of {', '.join(comparison.agents)}: "
            "pass policy= and agents= as for the shards, and use the same version everywhere"
        )
    for agent in comparison.agents:
        env = comparison.env_of(agent)
        names = {*COLUMNS, *env.components.measures}
        if any(set(columns) != names for columns in rows[agent]):
            raise ValueError(
                f"results of the agent {agent!r} have other columns than {', '.join(sorted(names))}: run the shards "
                "again"
            )
        filled = [columns for columns in rows[agent] if len(columns["episode_index"])]
        numbers = np.concatenate([columns["episode_index"] for columns in filled]) if filled else np.empty(0, np.int64)
        found, counts = np.unique(numbers, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"episode {found[counts > 1][0]} of the agent {agent!r} has run twice: leave out a shard")
        if not np.array_equal(found, expected):
            missing = np.setdiff1d(expected, found)
            problem = (
                f"the agent {agent!r} lacks {counted(len(missing), 'episode')}"
                if len(missing)
                else f"episode {np.setdiff1d(found, expected)[0]} of the agent {agent!r} does not exist"
            )
            raise ValueError(f"{problem}: run the shards again")
        comparison.results[agent] = in_order(env, filled)


def checksums_of(comparison: Comparison) -> dict[str, str | None]:
    """Return the SHA-256 of the files of all agents; None for an agent without a file."""
    return {name: None if one.file is None else sha256_of(one.file) for name, one in comparison.chosen.items()}


def differences(one: Mapping[str, Any], other: Mapping[str, Any], without: Sequence[str] = ()) -> list[str]:
    """Return lines that say how two protocol cards differ in something on which results depend."""
    left = _facts(one, without)
    right = _facts(other, without)
    names = [name for name in {**left, **right} if left.get(name) != right.get(name)]
    return [_difference(name, left.get(name), right.get(name)) for name in names]


def _facts(card: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    facts = {name: value for name, value in card.items() if name not in (*_FREE_FACTS, *without, "settings")}
    settings = card.get("settings")
    if isinstance(settings, Mapping):
        facts |= {f"settings.{name}": value for name, value in settings.items() if name not in _FREE_SETTINGS}
    return facts


def _difference(name: str, left: Any, right: Any) -> str:
    """Return a line with two values, of which long ones are cut to the surroundings of their first difference."""
    texts = json.dumps(left), json.dumps(right)
    same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    first = max(0, same - 40) if max(map(len, texts)) > 80 else 0
    left, right = (f"{'...' * bool(first)}{text[first:][:80]}{'...' * (len(text) > first + 80)}" for text in texts)
    return f"{name} is {left} and {right}"


def _parts_of(folders: Sequence[Path]) -> dict[Path, Content]:
    """Read the files of all shards; check that they belong together and that each shard is there once."""
    if not folders:
        raise ValueError("no folders to merge: name the --out folder of every shard")
    parts = {folder: _read(folder / FILE) for folder in folders}
    if len(parts) < len(folders):
        raise ValueError("a folder is named twice: name the --out folder of every shard once")
    first = parts[folders[0]]
    count = Part.parse(first["shard"]).count
    at: dict[int, Path] = {}
    for folder, part in parts.items():
        shard = Part.parse(part["shard"])
        if shard.count != count:
            raise ValueError(
                f"'{folder}' is shard {shard}, and '{folders[0]}' is {first['shard']}: pass shards of one run"
            )
        if shard.number in at:
            raise ValueError(f"'{folder}' and '{at[shard.number]}' are both shard {shard}: leave out one of them")
        at[shard.number] = folder
        lines = _argument_differences(first, part) + differences(first["card"], part["card"])
        if lines:
            raise ValueError(
                f"'{folders[0]}' and '{folder}' are of different evaluations: {'; '.join(lines)}: pass shards of one"
            )
    missing = [f"{number}/{count}" for number in range(1, min(count, 10**4) + 1) if number not in at]
    if missing:
        shown = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        raise ValueError(f"shards are missing: {shown}: run them, and pass the --out folder of every shard")
    return parts


def _argument_differences(one: Content, other: Content) -> list[str]:
    lines = []
    for table, free in (("arguments", _FREE_ARGUMENTS), ("checksums", ())):
        for name in {**one[table], **other[table]}:
            left = one[table].get(name)
            right = other[table].get(name)
            if name not in free and left != right:
                what = f"the file of the agent {name!r}" if table == "checksums" else name
                lines.append(_difference(what, left, right))
    policies = [one["asked"].policies, other["asked"].policies]
    if _without_files(policies[0]) != _without_files(policies[1]):
        lines.append(_difference("policy", *policies))
    if set(one["results"]) != set(other["results"]):
        lines.append(f"agents are {', '.join(one['results'])} and {', '.join(other['results'])}")
    return lines


def _read(file: Path) -> Content:
    """Read a file that may come from a stranger, and check that it is one of a shard."""
    if not file.is_file():
        raise FileNotFoundError(f"'{file}' does not exist: name folders that evaluate --shard i/n --out wrote")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"'{file}' has more than {MAX_BYTES >> 20} MiB: divide the evaluation into more shards")
    try:
        part = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{file}' is damaged ({error}): run this shard again") from error
    if not isinstance(part, dict) or part.get("format") != FORMAT:
        raise ValueError(f"the format of '{file}' is not {FORMAT!r}: run this shard again with this version")
    tables = ("arguments", "checksums", "card", "results")
    if not all(isinstance(part.get(name), dict) for name in tables) or not isinstance(part.get("shard"), str):
        raise ValueError(f"'{file}' lacks one of shard, {', '.join(tables)}: run this shard again")
    part["asked"] = _arguments(part["arguments"], file)
    return part


def _arguments(arguments: Mapping[str, Any], file: Path) -> Asked:
    """Return the arguments of a file; raise ValueError unless they have the types of ``Asked``."""
    hints = get_type_hints(Asked)
    if arguments.keys() != hints.keys():
        raise ValueError(f"'{file}': its arguments are not those of this version: run this shard again")
    try:
        return Asked(**{name: checked_value(name, value, hints[name]) for name, value in arguments.items()})
    except ValueError as error:
        raise ValueError(f"'{file}' has an invalid argument ({str(error)[:80]}): run this shard again") from error


def _without_files(names: Sequence[str]) -> list[str]:
    """Return the agents that no checksum distinguishes: those with a name of their own or in a module."""
    return [name for name in names if name in NAMES or is_in_module(name)]


def _asked(stored: Asked, policies: Sequence[str], agents: Sequence[str], renderer: str | None) -> Asked:
    """Return the arguments of a file, with policies at other places, as many as those of the file."""
    count = len(stored.policies)
    if policies and len(policies) != count:
        raise ValueError(f"policy={list(policies)!r}: the shards evaluated {count:,}: name as many")
    if policies and _without_files(policies) != _without_files(stored.policies):
        raise ValueError(f"policy={list(policies)!r}: the shards ran {list(stored.policies)!r:.200}: pass these")
    asked = replace(
        stored,
        policies=tuple(policies) or stored.policies,
        agents=tuple(agents) or stored.agents,
        renderer=renderer or stored.renderer,
    )
    for option, names, given in (("policy", asked.policies, policies), ("agents", asked.agents, agents)):
        # Importing a module runs code, which a file must not ask for.
        unnamed = [name for name in names if is_in_module(name) and name not in given]
        if unnamed:
            raise ValueError(
                f"the shards ran {unnamed[0][:80]!r}, which is code and is not imported unless you name it: pass it in "
                f"{option}="
            )
    return asked


def _columns(part: Content, agent: str, folder: Path) -> Columns:
    """Return the columns [E] of an agent's episodes: lists of numbers of one type and of equal lengths."""
    table = part["results"][agent]
    columns: Columns = {}
    for name, values in table.items() if isinstance(table, dict) else ():
        kinds = {type(value) for value in values} if isinstance(values, list) else {None}
        if len(kinds) > 1 or not kinds <= {bool, int, float}:
            raise ValueError(
                f"'{folder / FILE}': column {name} of {agent!r} is not a list of numbers of one type: run this shard "
                "again"
            )
        columns[name] = np.array(values) if values else np.empty(0, np.int64)
        if columns[name].dtype.kind not in "bif":
            raise ValueError(
                f"'{folder / FILE}': column {name} of {agent!r} has numbers beyond 64 bits: run this shard again"
            )
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"'{folder / FILE}': the columns of {agent!r} have different lengths: run this shard again")
    if "episode_index" not in columns or columns["episode_index"].dtype.kind != "i":
        raise ValueError(f"'{folder / FILE}': {agent!r} has no column of integers episode_index: run this shard again")
    return columns
